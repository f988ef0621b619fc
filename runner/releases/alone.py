"""One watcher at a time: by a lock on this host, and a lease among all hosts.

The lock ends with its process, however that ends. The lease is this folder's, so that
whoever has the lock goes on with it at once; another host waits until it lapses.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.conf import settings
from django.db import Error as DatabaseFault, connection

from runner.builds import registry, venvs
from runner.builds.probe import BuildError
from runner.models import Lease

NAME = "watch"
LOCK_NAME = "watching.lock"
SPAN = timedelta(minutes=10)
RENEW_S = 60.0


@contextmanager
def alone() -> Iterator[None]:
    """Raises BuildError where another watcher is at work."""
    holder = f"{registry.host_name()}:{settings.BUILDS_DIR}"
    try:
        with venvs.lock(settings.BUILDS_DIR / LOCK_NAME):
            if not Lease.take(NAME, holder, SPAN):
                other, until = Lease.holder_of(NAME)
                raise BuildError(
                    f"{other} watches already, at least until {until:%H:%M} UTC"
                )
            with renewed(holder):
                yield
    except venvs.LockHeld as held:
        raise BuildError(f"process {held.owner} watches already") from held


@contextmanager
def renewed(holder: str) -> Iterator[None]:
    ended = threading.Event()

    def renew() -> None:
        try:
            while not ended.wait(RENEW_S):
                try:
                    Lease.take(NAME, holder, SPAN)
                except DatabaseFault:
                    connection.close()  # it may come back before the lease lapses
        finally:
            connection.close()

    keeper = threading.Thread(target=renew, daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        keeper.join()
        Lease.give_back(NAME, holder)
