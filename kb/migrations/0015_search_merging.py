from django.db import migrations

TABLES = ("kb_searchany", "kb_searchtitle", "kb_searchsign")
# How many pieces of an index SQLite lets stand beside each other before it merges
# them: each piece is searched for each word. Its own default is 4.
FEW, DEFAULT = 2, 4


def merge_at(pieces):
    def change(apps, schema_editor):
        if schema_editor.connection.vendor == "sqlite":
            for table in TABLES:
                schema_editor.execute(
                    f"INSERT INTO {table} ({table}, rank) VALUES ('automerge', %s)",
                    [pieces],
                )

    return change


class Migration(migrations.Migration):
    dependencies = [("kb", "0014_page_indexes")]

    operations = [migrations.RunPython(merge_at(FEW), merge_at(DEFAULT))]
