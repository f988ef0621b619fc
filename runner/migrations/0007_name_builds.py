from django.db import migrations, models


def name_builds(apps, _editor):
    """Every evidence names its build; what was sent keeps the name alone."""
    evidence = apps.get_model("runner", "Evidence").objects
    evidence.exclude(build=None).update(build_slug=models.F("build_id"))
    ours = ("site", "repository")
    evidence.exclude(origin__in=ours).update(build=None)
    apps.get_model("runner", "Sweep").objects.exclude(origin__in=ours).update(
        build=None
    )
    proofs = ("installations", "evidence", "sweeps", "runs", "watched")
    builds = apps.get_model("runner", "Build").objects
    builds.filter(**dict.fromkeys(proofs)).delete()


class Migration(migrations.Migration):
    """Apart from the columns: PostgreSQL makes no index below pending changes."""

    dependencies = [("runner", "0006_no_kept_answers")]

    operations = [migrations.RunPython(name_builds, migrations.RunPython.noop)]
