from django.db import migrations, models


def unconfirm(apps, schema_editor):
    """What was sent before settles nothing any more; load_records counts anew."""
    sent = apps.get_model("kb", "Finding").objects.exclude(
        origin__in=("site", "repository")
    )
    records = list(sent.order_by().values_list("record", flat=True).distinct())
    sent.update(confirmed=False)
    standings = apps.get_model("kb", "Standing").objects.filter(record__in=records)
    standings.update(contradicted=None)


class Migration(migrations.Migration):

    dependencies = [
        ("kb", "0011_rules"),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="finding",
            name="finding_on_build",
        ),
        migrations.AddField(
            model_name="finding",
            name="confirmed",
            field=models.BooleanField(db_default=True, default=True),
        ),
        migrations.AddIndex(
            model_name="finding",
            index=models.Index(
                fields=[
                    *("build", "check_name", "stale", "confirmed", "record"),
                    *("fidelity", "verdict", "observed_at"),
                    *("repro", "device_class", "outcome"),
                ],
                name="finding_on_build",
            ),
        ),
        migrations.RunPython(unconfirm, migrations.RunPython.noop),
    ]
