"""What torch.compile built for reviewed repros: kept, one folder for each and build.

No repro can reach the folder of another, so none can poison another's. Standard library
only. The content was written by runs: nothing in here follows a link in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner import harness

MOST_MIB = 4096
LOCK = ".lock"


@contextmanager
def kept(root: Path, interpreter: str, source: str) -> Iterator[str]:
    """The folder of this repro under this interpreter, for the length of a run.

    It stays while anybody uses it; the ones not used for longest go when all together
    are above MOST_MIB.
    """
    place = root / name_of(interpreter) / harness.source_digest(source)[7:19]
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(place / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        os.utime(place)
        # The run owns this one; the lock above it is out of its reach.
        yield str(place / "files")
    finally:
        os.close(lock)
        prune(root)


def name_of(interpreter: str) -> str:
    return hashlib.sha256(os.path.abspath(interpreter).encode()).hexdigest()[:12]  # noqa: PTH100


def prune(root: Path, most_mib: float = MOST_MIB) -> list[Path]:
    """Remove what was not used for longest until the rest is small enough."""
    places = [path for path in root.glob("*/*") if path.is_dir()]
    sizes = {path: size_mib(path) for path in places}
    removed = []
    for path in sorted(places, key=lambda path: path.stat().st_mtime):
        if sum(sizes.values()) <= most_mib:
            break
        if remove(path):
            removed.append(path)
            del sizes[path]
    return removed


def remove(place: Path) -> bool:
    """Remove one folder that nobody uses; whether it could be."""
    try:
        lock = os.open(place / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place, ignore_errors=True)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def size_mib(place: Path) -> float:
    """What the files below a folder take; a folder that goes meanwhile counts less."""
    total = 0
    with contextlib.suppress(OSError):
        for _, _, names, handle in os.fwalk(place):
            for name in names:
                with contextlib.suppress(OSError):
                    found = os.stat(name, dir_fd=handle, follow_symlinks=False)
                    total += found.st_blocks * 512
    return total / harness.MIB
