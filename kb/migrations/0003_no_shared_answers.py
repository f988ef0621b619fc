from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('kb', '0002_sent_decides_nothing'),
    ]

    operations = [
        migrations.DeleteModel(
            name='SharedAnswer',
        ),
    ]
