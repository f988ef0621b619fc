"""What findings were made with, from their evidence."""

from django.db import migrations

# As in runner.evidence.store and kb.environments.package_lines when this was written.
NAMES = {
    "cudnn": "nvidia-cudnn-frontend",
    "flash_attn_interface": "flash-attn-3",
    "flash_attn.cute": "flash-attn-4",
    "fla": "flash-linear-attention",
    "liger_kernel": "liger-kernel",
}


def fill(apps, schema_editor):
    evidence = apps.get_model("runner", "Evidence").objects
    findings = apps.get_model("kb", "Finding").objects.filter(check_name="trigger")
    stacks = {
        (repro.record_id, repro.name): repro.header.get("stack", {})
        for repro in apps.get_model("kb", "Repro").objects.all()
    }
    for row in findings.iterator():
        body = evidence.values_list("body", flat=True).get(pk=row.evidence)
        installed = body["build"]["packages"]
        stack = stacks.get((row.record_id, row.repro), {})
        packages = {NAMES.get(name, name): installed.get(name) for name in stack}
        made_with = {"packages": packages} if packages else {}
        if row.device_class == "cuda":
            made_with["cudnn"] = body["build"]["cudnn"]
            made_with["capability"] = body["device"]["capability"]
        row.made_with = made_with
        row.save(update_fields=["made_with"])


class Migration(migrations.Migration):
    dependencies = [("runner", "0010_no_packed_logs"), ("kb", "0009_made_with")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
