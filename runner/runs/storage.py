"""Whether anything can be written: a row into the database, a file into DATA_DIR."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.core.cache import cache
from django.db import Error as DatabaseFault, connection, transaction
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from runner.models import Chore

MIB = 1024 * 1024
# Below the first an operator is told; below the second, this process is not ready.
LOW_MIB, LEAST_MIB = 256, 8
# How long the row may wait for a lock. Strangers may ask, so one row a second at most.
WAIT_S = 2
FRESH_S = 1.0


def unwritable() -> str:
    """Why the database takes no row, as of a second ago; "" where it does."""
    return str(cache.get_or_set("unwritable", try_row, FRESH_S))


def try_row() -> str:
    try:
        with impatient(), transaction.atomic():
            Chore.note(Chore.PROBE, {})
    except DatabaseFault as error:
        return first_line(error)
    return ""


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def impatient() -> Iterator[None]:
    """What is written here waits WAIT_S for a lock, not as long as others do."""
    if connection.vendor != "sqlite":
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = '{WAIT_S}s'")
            yield
        return
    usual_s = connection.settings_dict["OPTIONS"].get("timeout", WAIT_S)
    set_busy_timeout(WAIT_S)
    try:
        yield
    finally:
        set_busy_timeout(usual_s)


def set_busy_timeout(seconds: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


def free_mib() -> int:
    return shutil.disk_usage(settings.DATA_DIR).free // MIB


def faults() -> list[str]:
    """For probes, in English: why this process cannot keep what it is sent."""
    found = [f"database: {why}"] if (why := unwritable()) else []
    if (left := free_mib()) < LEAST_MIB:
        found.append(f"DATA_DIR: {left} MiB left")
    return found


def alarms() -> Iterator[str | Promise]:
    if why := unwritable():
        yield _("The database takes no row: %(why)s") % {"why": why}
    if (left := free_mib()) < LOW_MIB:
        yield _("Only %(left)d MiB are left in DATA_DIR.") % {"left": left}
