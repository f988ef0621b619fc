from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("runner", "0005_page_indexes"),
    ]

    operations = [
        migrations.AlterField(
            model_name="installation",
            name="state",
            field=models.CharField(
                choices=[
                    ("ready", "ready"),
                    ("broken", "broken"),
                    ("missing", "interpreter missing"),
                    ("installing", "being installed"),
                ],
                max_length=10,
            ),
        ),
    ]
