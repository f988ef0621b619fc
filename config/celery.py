"""The Celery application. Its messages only wake workers (runner.runs.ledger)."""

import os

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

TRANSPORT_ALIASES["kbfs"] = "runner.transport:Transport"

app = Celery("does_it_nan")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["runner.worker"])
# Threads of a web server have no current app of their own.
app.set_default()
