from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("runner", "0007_name_builds")]

    operations = [
        migrations.DeleteModel(name="WatchedRelease"),
        migrations.DeleteModel(name="Lease"),
    ]
