from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("runner", "0009_no_bisections")]

    operations = [migrations.DeleteModel(name="RunLog")]
