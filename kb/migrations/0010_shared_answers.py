import django.utils.timezone
from django.db import migrations, models

import kb.models.shared


class Migration(migrations.Migration):

    dependencies = [
        ("kb", "0009_symptoms"),
    ]

    operations = [
        migrations.CreateModel(
            name='SharedAnswer',
            fields=[
                ('id', models.CharField(default=kb.models.shared.new_id, editable=False, max_length=22, primary_key=True, serialize=False)),
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
    ]
