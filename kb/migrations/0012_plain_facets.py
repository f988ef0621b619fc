"""The facets of a standing as JSON; the next `load_records` writes standings anew."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("kb", "0011_updated")]
    operations = [
        migrations.RunSQL("DELETE FROM kb_standing", migrations.RunSQL.noop),
        migrations.RemoveField("standing", "facets"),
        migrations.AddField("standing", "facets", models.JSONField(default=dict)),
    ]
