"""User ids for runs: each check of a privileged worker has one of its own."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FIRST, COUNT = 62000, 256
RUN = Path("/run")
# Owners of compile caches: always the same for one folder.
CACHE_FIRST, CACHE_COUNT = 61000, 900


class NoUser(Exception):
    """Every user id for runs is taken, or the lock folder is another user's."""


def folder() -> Path:
    """The lock folder, which all workers of this machine share.

    Raises NoUser if it belongs to another user.
    """
    path = RUN / "doesitnan-uids"
    if not os.access(RUN, os.W_OK):
        path = Path(tempfile.gettempdir()) / "doesitnan-uids"
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise NoUser(f"{path} belongs to somebody else")
    return path


@contextmanager
def lease() -> Iterator[int]:
    """A user id of no other run of this machine, for the block. Raises NoUser."""
    where = folder()
    for uid in range(FIRST, FIRST + COUNT):
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(where / str(uid), flags, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        try:
            yield uid
        finally:
            os.close(handle)
        return
    raise NoUser(f"all {COUNT} users for runs are taken")


def of_cache(path: str) -> int:
    """The owner of a compile cache: the user id of every run that shares it."""
    return CACHE_FIRST + zlib.crc32(os.path.realpath(path).encode()) % CACHE_COUNT
