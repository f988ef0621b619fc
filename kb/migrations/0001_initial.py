import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models

TABLES = ("kb_searchany", "kb_searchtitle", "kb_searchsign")
# How many pieces of an index SQLite lets stand beside each other before it merges
# them: each piece is searched for each word. Its own default is 4.
FEW = 2
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
    if schema_editor.connection.vendor == "postgresql":
        for statement in POSTGRESQL:
            schema_editor.execute(statement)
        return
    for statement in SQLITE:
        schema_editor.execute(statement)
    for table in TABLES:
        schema_editor.execute(
            f"INSERT INTO {table} ({table}, rank) VALUES ('automerge', %s)", [FEW]
        )


def drop_index(apps, schema_editor):
    postgresql = schema_editor.connection.vendor == "postgresql"
    for statement in POSTGRESQL_BACK if postgresql else SQLITE_BACK:
        schema_editor.execute(statement)


class Migration(migrations.Migration):

    initial = True

    # What this once was in pieces, but for the one of the same name: a database that
    # has them all has this.
    replaces = [
        ("kb", "0002_search"),
        ("kb", "0003_outdated_languages"),
        ("kb", "0004_tallies"),
        ("kb", "0005_diagnoses"),
        ("kb", "0006_contradicted"),
        ("kb", "0007_check_titles"),
        ("kb", "0008_finding_said"),
        ("kb", "0009_symptoms"),
        ("kb", "0010_shared_answers"),
        ("kb", "0011_rules"),
        ("kb", "0012_evidence_faces"),
        ("kb", "0013_telling"),
        ("kb", "0014_page_indexes"),
        ("kb", "0015_search_merging"),
    ]

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='ChangeState',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('generation', models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='Record',
            fields=[
                ('id', models.CharField(max_length=8, primary_key=True, serialize=False)),
                ('slug', models.SlugField(max_length=80, unique=True)),
                ('publication', models.CharField(choices=[('draft', 'Draft'), ('published', 'Published'), ('withdrawn', 'Withdrawn')], default='draft', max_length=10)),
                ('withdrawn_because_en', models.TextField(blank=True)),
                ('withdrawn_because_zh', models.TextField(blank=True)),
                ('upstream', models.CharField(choices=[('open', 'open'), ('fixed', 'fixed'), ('by_design', 'by design'), ('not_planned', 'not planned'), ('unknown', 'unknown')], max_length=12)),
                ('symptom_class', models.CharField(choices=[('nan_forward', 'NaN in the forward pass'), ('nan_grad', 'NaN gradient'), ('lost_grad', 'Lost gradient'), ('wrong_grad', 'Wrong gradient'), ('silent_wrong', 'Silently wrong result'), ('error', 'Error')], max_length=14)),
                ('components', models.JSONField(blank=True, default=list)),
                ('aliases', models.JSONField(blank=True, default=list)),
                ('related', models.JSONField(blank=True, default=list)),
                ('title_en', models.CharField(max_length=200)),
                ('title_zh', models.CharField(max_length=200)),
                ('summary_en', models.CharField(max_length=400)),
                ('summary_zh', models.CharField(max_length=400)),
                ('symptom_en', models.TextField(blank=True)),
                ('symptom_zh', models.TextField(blank=True)),
                ('environment_en', models.TextField(blank=True)),
                ('environment_zh', models.TextField(blank=True)),
                ('root_cause_en', models.TextField(blank=True)),
                ('root_cause_zh', models.TextField(blank=True)),
                ('workaround_en', models.TextField(blank=True)),
                ('workaround_zh', models.TextField(blank=True)),
                ('fix_en', models.TextField(blank=True)),
                ('fix_zh', models.TextField(blank=True)),
                ('environment', models.JSONField(blank=True, default=list)),
                ('affected_when', models.CharField(choices=[('any', 'any package'), ('all', 'all packages')], default='any', max_length=3)),
                ('preconditions', models.JSONField(blank=True, default=list)),
                ('signatures', models.JSONField(blank=True, default=list)),
                ('affected', models.JSONField(blank=True, default=list)),
                ('fixes', models.JSONField(blank=True, default=list)),
                ('workarounds', models.JSONField(blank=True, default=list)),
                ('diagnoses', models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list)),
                ('sources', models.JSONField(blank=True, default=list)),
                ('check_titles', models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list)),
                ('rules', models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list)),
                ('html', models.JSONField(blank=True, default=dict, editable=False)),
                ('html_version', models.PositiveSmallIntegerField(default=0, editable=False)),
                ('outdated', models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), default=dict, editable=False)),
                ('significance', models.CharField(blank=True, choices=[('small', 'Small: wording only; the other language stays as it is'), ('medium', 'Medium: something was added or corrected; the other language is outdated'), ('large', 'Large: what readers believe or do changed; the other language is wrong now')], db_default='', editable=False, max_length=6)),
                ('revision', models.PositiveIntegerField(default=0, editable=False)),
                ('modified', models.DateTimeField(auto_now=True)),
                ('files_digest', models.CharField(blank=True, editable=False, max_length=71)),
                ('content_digest', models.CharField(blank=True, editable=False, max_length=71)),
            ],
            options={
                'verbose_name': 'record',
                'verbose_name_plural': 'records',
                'ordering': ['id'],
            },
        ),
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
            name='Symptom',
            fields=[
                ('slug', models.SlugField(max_length=80, primary_key=True, serialize=False)),
                ('title_en', models.CharField(max_length=200)),
                ('title_zh', models.CharField(max_length=200)),
                ('summary_en', models.TextField()),
                ('summary_zh', models.TextField()),
                ('words', models.JSONField(default=list)),
                ('signatures', models.JSONField(default=list)),
                ('causes', models.JSONField(default=list)),
                ('modified', models.DateTimeField(auto_now=True)),
            ],
            options={
                'verbose_name': 'symptom of many causes',
                'verbose_name_plural': 'symptoms of many causes',
                'ordering': ['slug'],
            },
        ),
        migrations.CreateModel(
            name='TallyState',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('generation', models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='TestedBuild',
            fields=[
                ('slug', models.CharField(max_length=61, primary_key=True, serialize=False)),
                ('raw', models.CharField(max_length=120)),
                ('records', models.PositiveIntegerField()),
                ('judged', models.BooleanField()),
            ],
            options={
                'ordering': ['slug'],
            },
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(max_length=40, unique=True)),
                ('address', models.CharField(max_length=500)),
                ('secret', models.CharField(max_length=100)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='HistoricalRecord',
            fields=[
                ('id', models.CharField(db_index=True, max_length=8)),
                ('slug', models.SlugField(max_length=80)),
                ('publication', models.CharField(choices=[('draft', 'Draft'), ('published', 'Published'), ('withdrawn', 'Withdrawn')], default='draft', max_length=10)),
                ('withdrawn_because_en', models.TextField(blank=True)),
                ('withdrawn_because_zh', models.TextField(blank=True)),
                ('upstream', models.CharField(choices=[('open', 'open'), ('fixed', 'fixed'), ('by_design', 'by design'), ('not_planned', 'not planned'), ('unknown', 'unknown')], max_length=12)),
                ('symptom_class', models.CharField(choices=[('nan_forward', 'NaN in the forward pass'), ('nan_grad', 'NaN gradient'), ('lost_grad', 'Lost gradient'), ('wrong_grad', 'Wrong gradient'), ('silent_wrong', 'Silently wrong result'), ('error', 'Error')], max_length=14)),
                ('components', models.JSONField(blank=True, default=list)),
                ('aliases', models.JSONField(blank=True, default=list)),
                ('related', models.JSONField(blank=True, default=list)),
                ('title_en', models.CharField(max_length=200)),
                ('title_zh', models.CharField(max_length=200)),
                ('summary_en', models.CharField(max_length=400)),
                ('summary_zh', models.CharField(max_length=400)),
                ('symptom_en', models.TextField(blank=True)),
                ('symptom_zh', models.TextField(blank=True)),
                ('environment_en', models.TextField(blank=True)),
                ('environment_zh', models.TextField(blank=True)),
                ('root_cause_en', models.TextField(blank=True)),
                ('root_cause_zh', models.TextField(blank=True)),
                ('workaround_en', models.TextField(blank=True)),
                ('workaround_zh', models.TextField(blank=True)),
                ('fix_en', models.TextField(blank=True)),
                ('fix_zh', models.TextField(blank=True)),
                ('environment', models.JSONField(blank=True, default=list)),
                ('affected_when', models.CharField(choices=[('any', 'any package'), ('all', 'all packages')], default='any', max_length=3)),
                ('preconditions', models.JSONField(blank=True, default=list)),
                ('signatures', models.JSONField(blank=True, default=list)),
                ('affected', models.JSONField(blank=True, default=list)),
                ('fixes', models.JSONField(blank=True, default=list)),
                ('workarounds', models.JSONField(blank=True, default=list)),
                ('diagnoses', models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list)),
                ('sources', models.JSONField(blank=True, default=list)),
                ('check_titles', models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list)),
                ('rules', models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list)),
                ('outdated', models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), default=dict, editable=False)),
                ('significance', models.CharField(blank=True, choices=[('small', 'Small: wording only; the other language stays as it is'), ('medium', 'Medium: something was added or corrected; the other language is outdated'), ('large', 'Large: what readers believe or do changed; the other language is wrong now')], db_default='', editable=False, max_length=6)),
                ('revision', models.PositiveIntegerField(default=0, editable=False)),
                ('modified', models.DateTimeField(blank=True, editable=False)),
                ('files_digest', models.CharField(blank=True, editable=False, max_length=71)),
                ('content_digest', models.CharField(blank=True, editable=False, max_length=71)),
                ('history_id', models.AutoField(primary_key=True, serialize=False)),
                ('history_date', models.DateTimeField(db_index=True)),
                ('history_change_reason', models.CharField(max_length=100, null=True)),
                ('history_type', models.CharField(choices=[('+', 'Created'), ('~', 'Changed'), ('-', 'Deleted')], max_length=1)),
                ('history_user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'historical record',
                'verbose_name_plural': 'historical records',
                'ordering': ('-history_date', '-history_id'),
                'get_latest_by': ('history_date', 'history_id'),
            },
            bases=(models.Model,),
        ),
        migrations.CreateModel(
            name='Standing',
            fields=[
                ('record', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, serialize=False, to='kb.record')),
                ('facets', models.TextField()),
                ('first_bad', models.CharField(blank=True, max_length=61)),
                ('first_good', models.CharField(blank=True, max_length=61)),
                ('verified', models.PositiveIntegerField(default=0)),
                ('refuted', models.PositiveIntegerField(default=0)),
                ('disputed', models.PositiveIntegerField(default=0)),
                ('documented', models.PositiveIntegerField(default=0)),
                ('contradicted', models.PositiveIntegerField(db_index=True, null=True)),
            ],
            options={
                'ordering': ['record_id'],
            },
        ),
        migrations.CreateModel(
            name='Change',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('device_class', models.CharField(max_length=4)),
                ('kind', models.CharField(max_length=10)),
                ('before', models.CharField(max_length=61)),
                ('build', models.CharField(max_length=61)),
                ('build_raw', models.CharField(max_length=120)),
                ('observed_at', models.DateTimeField()),
                ('noted_at', models.DateTimeField(auto_now_add=True)),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='changes', to='kb.record')),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='Repro',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60)),
                ('source', models.TextField()),
                ('digest', models.CharField(db_index=True, max_length=71)),
                ('fidelity', models.CharField(choices=[('upstream_bug', 'the upstream bug itself'), ('real_kernel', 'the real kernel'), ('mechanism_model', 'a model of the mechanism')], max_length=16)),
                ('device', models.CharField(choices=[('cpu', 'cpu'), ('cuda', 'cuda')], max_length=4)),
                ('header', models.JSONField(default=dict)),
                ('checks', models.JSONField(default=list)),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='repros', to='kb.record')),
            ],
            options={
                'ordering': ['record_id', 'name'],
            },
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
            name='SearchKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.TextField()),
                ('document', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='keys', to='kb.searchdocument')),
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
            name='SharedAnswer',
            fields=[
                ('id', models.CharField(editable=False, max_length=22, primary_key=True, serialize=False)),
                ('log', models.TextField(blank=True)),
                ('env', models.TextField(blank=True)),
                ('maker', models.CharField(max_length=32)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('expires_at', models.DateTimeField(db_index=True)),
            ],
            options={
                'verbose_name': 'kept answer',
                'verbose_name_plural': 'kept answers',
                'ordering': ['-created_at'],
                'indexes': [models.Index(fields=['maker', 'created_at'], name='kb_sharedan_maker_26738c_idx')],
            },
        ),
        migrations.CreateModel(
            name='Subscription',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('record', 'a record'), ('component', 'a component'), ('environment', 'my environment'), ('everything', 'everything')], max_length=11)),
                ('component', models.CharField(blank=True, max_length=100)),
                ('environment', models.TextField(blank=True)),
                ('language', models.CharField(default='en', max_length=2)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('record', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='subscriptions', to='kb.record')),
                ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='subscriptions', to=settings.AUTH_USER_MODEL)),
                ('webhook', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='subscriptions', to='kb.webhook')),
            ],
            options={
                'ordering': ['id'],
            },
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('language', models.CharField(default='en', max_length=2)),
                ('state', models.CharField(choices=[('waiting', 'waiting'), ('sent', 'sent'), ('given_up', 'given up'), ('shown', 'shown on the page')], default='waiting', max_length=8)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('next_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('error', models.CharField(blank=True, max_length=300)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('change', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='kb.change')),
                ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to=settings.AUTH_USER_MODEL)),
                ('webhook', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='kb.webhook')),
            ],
            options={
                'verbose_name_plural': 'deliveries',
                'ordering': ['-created_at', 'id'],
            },
        ),
        migrations.CreateModel(
            name='Flip',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('device_class', models.CharField(max_length=4)),
                ('kind', models.CharField(max_length=10)),
                ('before', models.CharField(max_length=61)),
                ('build', models.CharField(max_length=61)),
                ('build_raw', models.CharField(max_length=120)),
                ('observed_at', models.DateTimeField(db_index=True)),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='flips', to='kb.record')),
            ],
            options={
                'ordering': ['record_id', 'device_class', 'id'],
                'indexes': [models.Index(fields=['build', 'kind', 'before'], name='flip_counted'), models.Index(fields=['build', '-record'], name='flip_in_build')],
            },
        ),
        migrations.CreateModel(
            name='Finding',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('repro', models.CharField(max_length=60)),
                ('fidelity', models.CharField(choices=[('upstream_bug', 'the upstream bug itself'), ('real_kernel', 'the real kernel'), ('mechanism_model', 'a model of the mechanism')], max_length=16)),
                ('build', models.CharField(db_index=True, max_length=61)),
                ('build_raw', models.CharField(max_length=120)),
                ('device_class', models.CharField(choices=[('cpu', 'cpu'), ('cuda', 'cuda')], max_length=4)),
                ('device_name', models.CharField(blank=True, max_length=120)),
                ('check_name', models.CharField(max_length=80)),
                ('outcome', models.CharField(blank=True, choices=[('bug', 'bug'), ('clean', 'clean'), ('not_applicable', 'not applicable'), ('error', 'error')], max_length=14)),
                ('reason', models.CharField(blank=True, max_length=200)),
                ('verdict', models.CharField(choices=[('bug_present', 'bug reproduced'), ('bug_absent', 'bug not seen'), ('not_applicable', 'cannot apply here'), ('inconclusive', 'no verdict'), ('error', 'error')], max_length=14)),
                ('verdict_reason', models.CharField(blank=True, max_length=200)),
                ('hits', models.PositiveIntegerField(default=0)),
                ('trials', models.PositiveIntegerField(default=0)),
                ('said', models.TextField(blank=True, null=True)),
                ('origin', models.CharField(max_length=40)),
                ('confirmed', models.BooleanField(db_default=True, default=True)),
                ('stale', models.BooleanField(default=False)),
                ('evidence', models.CharField(max_length=71)),
                ('observed_at', models.DateTimeField()),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='findings', to='kb.record')),
            ],
            options={
                'ordering': ['record_id', 'repro', 'build', 'check_name'],
                'indexes': [models.Index(fields=['build', 'check_name', 'stale', 'confirmed', 'record', 'fidelity', 'verdict', 'observed_at', 'repro', 'device_class', 'outcome'], name='finding_on_build'), models.Index(condition=models.Q(('said__isnull', False)), fields=['build'], name='finding_said'), models.Index(fields=['observed_at', 'check_name'], name='finding_newest')],
                'constraints': [models.UniqueConstraint(fields=('record', 'repro', 'build', 'device_class', 'check_name'), name='one_finding')],
            },
        ),
        migrations.CreateModel(
            name='Claim',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cid', models.CharField(max_length=40)),
                ('position', models.PositiveSmallIntegerField()),
                ('kind', models.CharField(choices=[('cause', 'cause'), ('range', 'range'), ('fix', 'fix'), ('workaround', 'workaround'), ('other', 'other')], max_length=10)),
                ('text_en', models.TextField()),
                ('text_zh', models.TextField()),
                ('source', models.CharField(max_length=40)),
                ('check_ref', models.CharField(blank=True, max_length=120)),
                ('expects', models.CharField(blank=True, choices=[('bug', 'the bug'), ('clean', 'no bug')], max_length=5)),
                ('builds', models.JSONField(blank=True, default=list)),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='claims', to='kb.record')),
            ],
            options={
                'ordering': ['record_id', 'position'],
                'constraints': [models.UniqueConstraint(fields=('record', 'cid'), name='one_claim_id')],
            },
        ),
        migrations.AddConstraint(
            model_name='change',
            constraint=models.UniqueConstraint(fields=('record', 'device_class', 'kind', 'build'), name='one_change'),
        ),
        migrations.AddConstraint(
            model_name='repro',
            constraint=models.UniqueConstraint(fields=('record', 'name'), name='one_repro_name'),
        ),
        migrations.AddConstraint(
            model_name='searchkey',
            constraint=models.UniqueConstraint(fields=('key', 'document'), name='one_search_key'),
        ),
        migrations.AddConstraint(
            model_name='subscription',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('user', None), ('webhook__isnull', False)), models.Q(('user__isnull', False), ('webhook', None)), _connector='OR'), name='one_subscriber'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(fields=['state', 'next_at'], name='kb_delivery_state_b02994_idx'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.UniqueConstraint(fields=('change', 'user'), name='one_for_user'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.UniqueConstraint(fields=('change', 'webhook'), name='one_for_webhook'),
        ),
        migrations.RunPython(create_index, drop_index),
    ]
