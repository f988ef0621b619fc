"""One run per GPU: flock(2) on a file per UUID.

The kernel frees a lock when its last descriptor is closed. The init of a run inherits
one and outlives all other processes of the run, so that no orphan can use a GPU after
its lock is gone, even if the worker is killed. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

POLL_S = 0.2
# Replaces a UUID that is unknown: "cuda-0" is torch's cuda:0.
BY_INDEX = "cuda-"


class Interrupted(Exception):
    """The wait for a GPU was cancelled."""


class GpuLock:
    """The locks of some GPUs, held until `release`."""

    def __init__(self, uuids: Sequence[str], descriptors: list[int]) -> None:
        self.uuids = tuple(uuids)
        self.descriptors = descriptors

    def release(self) -> None:
        """Close the descriptors here; those that the run has inherited still count."""
        while self.descriptors:
            os.close(self.descriptors.pop())


def visible(uuid: str) -> str:
    """The name of a GPU in CUDA_VISIBLE_DEVICES."""
    return uuid.removeprefix(BY_INDEX)


def path_of(folder: Path, uuid: str) -> Path:
    return folder / f"gpu-{re.sub(r'[^A-Za-z0-9-]', '_', uuid)}.lock"


def try_lock(folder: Path, uuids: Sequence[str]) -> GpuLock | None:
    """Lock all of them, else none and None; in sorted order, against deadlocks."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = GpuLock(uuids, [])
    for uuid in sorted(set(uuids)):
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(path_of(folder, uuid), flags, 0o600)
        except OSError:
            lock.release()
            raise
        lock.descriptors.append(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.release()
            return None
        # For a person to read; a full disk is no reason to keep the GPU or to lose it.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
    return lock


def wait_for(
    folder: Path,
    choices: Iterable[Sequence[str]],
    *,
    stopped: Callable[[], bool] | None = None,
    waiting: Callable[[str], None] | None = None,
) -> GpuLock:
    """Lock the first of `choices` that is free, polling until one is.

    `waiting(text)` is called once, with the owner of the lock. Raises Interrupted once
    `stopped()` is true.
    """
    choices, notified = list(choices), False
    while True:
        for uuids in choices:
            lock = try_lock(folder, uuids)
            if lock:
                return lock
        if stopped and stopped():
            raise Interrupted
        if waiting and not notified:
            notified = True
            waiting(f"another run has the GPU{owner(folder, choices)}: waiting for it")
        time.sleep(POLL_S)


def owner(folder: Path, choices: Sequence[Sequence[str]]) -> str:
    """ " (process 123)" for a person; the number may be that of a namespace."""
    try:
        number = path_of(folder, choices[0][0]).read_text()
    except (OSError, IndexError):
        return ""
    return f" (process {number})" if number.isdecimal() else ""
