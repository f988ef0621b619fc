from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('kb', '0003_no_shared_answers'),
    ]

    operations = [
        migrations.DeleteModel(name='Delivery'),
        migrations.DeleteModel(name='Subscription'),
        migrations.DeleteModel(name='Change'),
        migrations.DeleteModel(name='ChangeState'),
        migrations.DeleteModel(name='Webhook'),
    ]
