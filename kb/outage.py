"""Faults of what the site stands on, its database and its disk, not of its code."""

from __future__ import annotations

import errno
import sqlite3

from django.db import InterfaceError, OperationalError

# Seconds after which it is worth asking again.
RETRY_S = 5
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
# Of the others of SQLite, as a table that is missing, waiting cures none.
SQLITE = (
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL),
    *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY),
)


def is_outage(error: BaseException | None) -> bool:
    """Whether the database is away, locked or full, or no file can be written.

    PostgreSQL's and SQLite's own words come as the cause of Django's exception.
    """
    if isinstance(error, OSError):
        return error.errno in DISK_FULL
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return code is None or code & 0xFF in SQLITE
