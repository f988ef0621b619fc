from django.db import migrations

CHUNK = 200


def fill(apps, schema_editor):
    """What the triggers said, of the evidence that a site has already."""
    # Evidence is immutable, and what is read of it here is no column.
    from runner.evidence.store import said

    Finding = apps.get_model("kb", "Finding")
    Evidence = apps.get_model("runner", "Evidence")
    rows = Finding.objects.filter(check_name="trigger").order_by("pk")
    last = 0
    while chunk := list(rows.filter(pk__gt=last)[:CHUNK]):
        bodies = Evidence.objects.in_bulk({row.evidence for row in chunk})
        for row in chunk:
            if row.evidence in bodies:
                checks = bodies[row.evidence].body["checks"]
                row.said = said([item for item in checks if item["name"] == "trigger"])
        Finding.objects.bulk_update(chunk, ["said"])
        last = chunk[-1].pk


class Migration(migrations.Migration):

    dependencies = [
        ("runner", "0006_installing"),
        ("kb", "0008_finding_said"),
    ]

    operations = [
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
