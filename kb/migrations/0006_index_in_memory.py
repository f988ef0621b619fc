"""The search index is built in memory; the tables of its parts go.

What records are found by is written again by the next `load_records`.
"""

import django.db.models.deletion
from django.db import migrations, models

SQLITE = [
    "DROP TRIGGER kb_searchdocument_removed",
    *(f"DROP TABLE kb_search{name}" for name in ("any", "title", "sign")),
]
POSTGRESQL = [
    "DROP TRIGGER kb_searchdocument_removed ON kb_searchdocument",
    "DROP FUNCTION kb_searchdocument_removed()",
]


def drop_index(apps, schema_editor):
    is_postgresql = schema_editor.connection.vendor == "postgresql"
    for statement in POSTGRESQL if is_postgresql else SQLITE:
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("kb", "0005_files_are_the_only_door")]
    operations = [
        migrations.RunPython(drop_index),
        migrations.DeleteModel("SearchKey"),
        migrations.DeleteModel("SearchRemoved"),
        migrations.DeleteModel("SearchTerm"),
        migrations.DeleteModel("SearchDocument"),
        migrations.RemoveField("searchstate", "documents"),
        migrations.RemoveField("searchstate", "length"),
        migrations.CreateModel(
            name="SearchDocument",
            fields=[
                (
                    "record",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="kb.record",
                    ),
                ),
                ("algorithm", models.PositiveIntegerField()),
                ("contents", models.TextField()),
                ("digest", models.CharField(max_length=64)),
            ],
        ),
    ]
