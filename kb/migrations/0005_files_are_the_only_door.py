import django.utils.timezone
from django.db import migrations, models
from django.db.models import Min


def keep_dates(apps, _editor):
    """When each record came here, as its oldest revision says."""
    Record = apps.get_model("kb", "Record")
    revisions = apps.get_model("kb", "HistoricalRecord").objects
    oldest = revisions.values("id").annotate(at=Min("history_date")).order_by("id")
    for pk, at in oldest.values_list("id", "at"):
        Record.objects.filter(pk=pk).update(added_at=at)


def load_anew(apps, _editor):
    """What was edited on the site gives way to the files with the next load."""
    apps.get_model("kb", "Record").objects.update(files_digest="")


class Migration(migrations.Migration):

    dependencies = [
        ('kb', '0004_no_telling'),
    ]

    operations = [
        migrations.AddField(
            model_name='record',
            name='added_at',
            field=models.DateTimeField(default=django.utils.timezone.now, editable=False),
        ),
        migrations.RunPython(keep_dates, migrations.RunPython.noop),
        migrations.RunPython(load_anew, migrations.RunPython.noop),
        migrations.DeleteModel(name='HistoricalRecord'),
        migrations.RemoveField(model_name='record', name='content_digest'),
        migrations.RemoveField(model_name='record', name='revision'),
        migrations.RemoveField(model_name='record', name='significance'),
        migrations.RemoveField(model_name='record', name='outdated'),
        migrations.AddField(
            model_name='record',
            name='outdated',
            field=models.CharField(blank=True, default="", editable=False, max_length=2),
            preserve_default=False,
        ),
    ]
