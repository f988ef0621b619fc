"""Scratch folders of checks, and removal of those left by killed workers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "doesitnan-run-"
GRACE_S = 60  # between making and locking a folder


@contextmanager
def scratch_folder() -> Iterator[str]:
    """A folder for one check, locked while its owner lives (see remove_abandoned)."""
    folder = tempfile.mkdtemp(prefix=PREFIX)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder
    finally:
        remove(folder)
        os.close(handle)


def remove(folder: str | Path) -> None:
    """Delete a folder of any depth, without following links.

    Call it after the last process of the run is gone.
    """
    with contextlib.suppress(RecursionError):  # It calls itself for each level.
        shutil.rmtree(folder, ignore_errors=True)
    if Path(folder).exists():
        command = ["rm", "-rf", "--one-file-system", "--", str(folder)]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False)


def remove_abandoned() -> int:
    """Delete folders left by killed workers of this user; returns how many."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(PREFIX + "*"):
        handle = abandoned(folder)
        if handle is None:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(folder)
            removed += 1
        except BlockingIOError:
            continue
        finally:
            os.close(handle)
    return removed


def abandoned(folder: Path) -> int | None:
    """A descriptor of a folder that is this user's and not new; None for any other."""
    try:
        status = folder.lstat()
        fresh = time.time() - status.st_mtime < GRACE_S
        mine = status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode)
        if fresh or not mine:
            return None
        return os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
