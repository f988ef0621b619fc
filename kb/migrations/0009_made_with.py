"""What runs were made with, beside torch; a migration of the runner fills it in."""
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('kb', '0008_holds_on'),
    ]

    operations = [
        migrations.AddField(
            model_name='finding',
            name='made_with',
            field=models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), default=dict),
        ),
    ]
