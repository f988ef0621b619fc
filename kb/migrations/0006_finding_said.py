from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("kb", "0005_diagnoses"),
    ]

    operations = [
        migrations.AddField(
            model_name="finding",
            name="said",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
    ]
