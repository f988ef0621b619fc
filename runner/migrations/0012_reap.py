from django.db import migrations


def forget_sweep(apps, _editor):
    """When leases were last looked at is noted under another name since."""
    apps.get_model("runner", "Chore").objects.filter(name="sweep").delete()


class Migration(migrations.Migration):
    dependencies = [("runner", "0011_made_with")]

    operations = [migrations.RunPython(forget_sweep, migrations.RunPython.noop)]
