from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("runner", "0008_no_watched_releases")]

    operations = [migrations.DeleteModel(name="Bisection")]
