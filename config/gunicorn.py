"""How gunicorn serves the site: `python -m gunicorn -c python:config.gunicorn`."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

wsgi_app = "config.wsgi:application"
chdir = str(Path(__file__).parents[1])
worker_class = "config.serving.BufferingWorker"
workers = 2
threads = 8  # of a process; a request has one once it has arrived
graceful_timeout = 3
loglevel = "warning"
control_socket_disable = True
preload_app = True  # both processes from one import
# Longer addresses than the API takes, so that its problem says what is wrong.
limit_request_line = 8190
# By SCRIPT_NAME whoever sends it would say at which address of the site he is. It is
# gunicorn's own workers that would listen to it; waitress has no such header.
forwarder_headers = ""


def when_ready(_server: Any) -> None:
    """Leave what was imported out of later collections, which took a reader 65 ms.

    Before the processes are forked, which also keeps those pages shared.
    """
    gc.collect()
    gc.freeze()
