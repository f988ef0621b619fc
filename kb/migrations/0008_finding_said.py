from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("kb", "0007_check_titles"),
    ]

    operations = [
        migrations.AddField(
            model_name="finding",
            name="said",
            field=models.TextField(blank=True, null=True),
        ),
        migrations.RemoveIndex(
            model_name="finding",
            name="finding_on_build",
        ),
        migrations.AddIndex(
            model_name="finding",
            index=models.Index(
                fields=[
                    *("build", "check_name", "stale", "record"),
                    *("fidelity", "verdict", "observed_at"),
                    *("repro", "device_class", "outcome"),
                ],
                name="finding_on_build",
            ),
        ),
        migrations.AddIndex(
            model_name="finding",
            index=models.Index(
                condition=models.Q(("said__isnull", False)),
                fields=["build"],
                name="finding_said",
            ),
        ),
    ]
