import django.db.models.deletion
from django.db import migrations, models

# Of a token only the rows that have it. Every token is kept as it is: nothing but
# the spaces between tokens separates them.
SQLITE = [
    *(
        f"""
        CREATE VIRTUAL TABLE kb_search{name} USING fts5 (
            tokens, content = '', columnsize = 0, detail = none,
            tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* P* S* C*'"
        )
        """
        for name in ("any", "title", "sign")
    ),
    # A later migration that remakes kb_searchdocument must create this again.
    """
    CREATE TRIGGER kb_searchdocument_removed AFTER DELETE ON kb_searchdocument
    BEGIN
        INSERT INTO kb_searchremoved (document, length, signatures, terms)
        VALUES (OLD.id, OLD.length, OLD.signatures, OLD.terms);
        UPDATE kb_searchstate SET generation = random();
    END
    """,
]
POSTGRESQL = [
    """
    ALTER TABLE kb_searchdocument
        ADD COLUMN title_vector tsvector,
        ADD COLUMN sign_vector tsvector,
        ADD COLUMN any_vector tsvector
    """,
    *(
        f"CREATE INDEX kb_search{name} ON kb_searchdocument USING gin ({name}_vector)"
        for name in ("any", "title", "sign")
    ),
    """
    CREATE FUNCTION kb_searchdocument_removed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO kb_searchremoved (document, length, signatures, terms)
        VALUES (OLD.id, OLD.length, OLD.signatures, OLD.terms);
        UPDATE kb_searchstate SET generation = floor(random() * 4e18)::bigint;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER kb_searchdocument_removed AFTER DELETE ON kb_searchdocument
    FOR EACH ROW EXECUTE FUNCTION kb_searchdocument_removed()
    """,
]
SQLITE_BACK = [
    "DROP TRIGGER kb_searchdocument_removed",
    *(f"DROP TABLE kb_search{name}" for name in ("any", "title", "sign")),
]
POSTGRESQL_BACK = [
    "DROP TRIGGER kb_searchdocument_removed ON kb_searchdocument",
    "DROP FUNCTION kb_searchdocument_removed()",
]


def create_index(apps, schema_editor):
    postgresql = schema_editor.connection.vendor == "postgresql"
    for statement in POSTGRESQL if postgresql else SQLITE:
        schema_editor.execute(statement)


def drop_index(apps, schema_editor):
    postgresql = schema_editor.connection.vendor == "postgresql"
    for statement in POSTGRESQL_BACK if postgresql else SQLITE_BACK:
        schema_editor.execute(statement)


class Migration(migrations.Migration):

    dependencies = [
        ('kb', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='SearchRemoved',
            fields=[
                ('document', models.BigIntegerField(primary_key=True, serialize=False)),
                ('length', models.IntegerField()),
                ('signatures', models.TextField()),
                ('terms', models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name='SearchState',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('documents', models.IntegerField(default=0)),
                ('length', models.BigIntegerField(default=0)),
                ('generation', models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='SearchDocument',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('algorithm', models.PositiveIntegerField()),
                ('facets', models.TextField()),
                ('length', models.PositiveIntegerField()),
                ('signatures', models.TextField()),
                ('terms', models.BinaryField()),
                ('record', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='kb.record')),
            ],
        ),
        migrations.CreateModel(
            name='SearchTerm',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token', models.TextField()),
                ('documents', models.IntegerField()),
                ('signs', models.IntegerField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('token',), name='one_search_term')],
            },
        ),
        migrations.CreateModel(
            name='SearchKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.TextField()),
                ('document', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='keys', to='kb.searchdocument')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('key', 'document'), name='one_search_key')],
            },
        ),
        migrations.RunPython(create_index, drop_index),
    ]
