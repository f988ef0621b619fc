from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("kb", "0010_shared_answers"),
    ]

    operations = [
        migrations.AddField(
            model_name="historicalrecord",
            name="rules",
            field=models.JSONField(
                blank=True,
                db_default=models.Value([], models.JSONField()),
                default=list,
            ),
        ),
        migrations.AddField(
            model_name="record",
            name="rules",
            field=models.JSONField(
                blank=True,
                db_default=models.Value([], models.JSONField()),
                default=list,
            ),
        ),
    ]
