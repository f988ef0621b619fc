from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("kb", "0008_finding_said"),
    ]

    operations = [
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
    ]
