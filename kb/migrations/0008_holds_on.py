"""Where the cause of a record holds, which the next load fills in."""
from django.db import migrations, models




class Migration(migrations.Migration):

    dependencies = [
        ('kb', '0007_brief_records'),
    ]

    operations = [
        migrations.AddField(
            model_name='record',
            name='holds_on',
            field=models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), default=dict),
        ),
    ]
