"""Compile caches of reviewed repros: one folder for each repro and build.

No repro can reach the folder of another, so none can poison another's. The content is
untrusted: nothing here follows a link in it. Standard library only.
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

from portable import harness

LIMIT_MIB = 4096
LOCK = ".lock"
FLAGS = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC


@contextmanager
def locked_folder(root: Path, interpreter: str, source: str) -> Iterator[str]:
    """The cache folder of this repro under this interpreter, locked for the block.

    Afterwards the least recently used unlocked folders above LIMIT_MIB are removed.
    """
    folder = root / interpreter_key(interpreter) / harness.source_digest(source)[7:19]
    lock = locked(folder, fcntl.LOCK_SH)
    try:
        # The run owns this folder; the lock file above it is out of its reach.
        yield str(folder / "files")
    finally:
        os.close(lock)
        prune(root)


def locked(folder: Path, how: int, mode: int = 0o700) -> int:
    """The lock on a folder, which counts as used now; made anew where it was removed.

    Whoever removes it holds the lock, so it may be gone once one has waited for that.
    """
    while True:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        lock = -1
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder / LOCK, FLAGS, 0o600)
            fcntl.flock(lock, how)
            if os.path.samestat(os.fstat(lock), (folder / LOCK).stat()):
                os.utime(folder)
                return lock
        if lock >= 0:
            os.close(lock)


def interpreter_key(interpreter: str) -> str:
    return hashlib.sha256(os.path.abspath(interpreter).encode()).hexdigest()[:12]  # noqa: PTH100


def prune(root: Path, limit_mib: float = LIMIT_MIB) -> list[Path]:
    """Remove the least recently used folders until the rest fits; returns them."""
    folders = [path for path in root.glob("*/*") if path.is_dir()]
    sizes = {path: size_mib(path) for path in folders}
    removed = []
    for path in sorted(folders, key=used_at):
        if sum(sizes.values()) <= limit_mib:
            break
        if remove(path):
            removed.append(path)
        if not path.exists():
            del sizes[path]
    return removed


def used_at(folder: Path) -> float:
    """When a folder was used last; 0 where another process has removed it."""
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def remove(folder: Path) -> bool:
    """Remove a folder unless a run has it locked; returns whether it did."""
    try:
        lock = os.open(folder / LOCK, FLAGS, 0o600)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def size_mib(folder: Path) -> float:
    """Disk usage of a folder; files that vanish meanwhile are not counted."""
    total = 0
    with contextlib.suppress(OSError):
        for _, _, names, handle in os.fwalk(folder):
            for name in names:
                with contextlib.suppress(OSError):
                    status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                    total += status.st_blocks * 512
    return total / harness.MIB
