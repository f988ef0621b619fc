"""One run per GPU: flock(2) on a file per UUID.

The kernel frees the lock when the last descriptor of it is closed. Whoever starts a
run's processes lets one that outlives all others inherit it, so that no orphan can
outlast the lock, whatever became of the worker. Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

POLL_S = 0.2
# In place of a UUID where nothing tells one: "cuda-0" is what torch calls cuda:0.
BY_INDEX = "cuda-"


class Interrupted(Exception):
    """Whoever waited for a GPU was told to stop."""


class GpuLock:
    """The locks of some GPUs, held until `release`."""

    def __init__(self, uuids: Sequence[str], descriptors: list[int]) -> None:
        self.uuids = tuple(uuids)
        self.descriptors = descriptors

    def release(self) -> None:
        """Close them here; what a process of the run has inherited still counts."""
        while self.descriptors:
            os.close(self.descriptors.pop())


def visible(uuid: str) -> str:
    """What CUDA_VISIBLE_DEVICES calls it."""
    return uuid.removeprefix(BY_INDEX)


def path_of(folder: Path, uuid: str) -> Path:
    return folder / f"gpu-{re.sub(r'[^A-Za-z0-9-]', '_', uuid)}.lock"


def try_lock(folder: Path, uuids: Sequence[str]) -> GpuLock | None:
    """All of them at once, or None. In one order everywhere, so nobody deadlocks."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    held = GpuLock(uuids, [])
    for uuid in sorted(set(uuids)):
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path_of(folder, uuid), flags, 0o600)
        held.descriptors.append(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.release()
            return None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
    return held


def wait_for(
    folder: Path,
    choices: Iterable[Sequence[str]],
    *,
    stopped: Callable[[], bool] | None = None,
    waiting: Callable[[str], None] | None = None,
) -> GpuLock:
    """The first of several choices of GPUs that can be had, waiting if need be.

    `waiting(text)` is told once that it takes a while, and who has the GPU. Raises
    Interrupted once `stopped()` is true.
    """
    choices, told = list(choices), False
    while True:
        for uuids in choices:
            held = try_lock(folder, uuids)
            if held:
                return held
        if stopped and stopped():
            raise Interrupted
        if waiting and not told:
            told = True
            waiting(f"another run has the GPU{owner(folder, choices)}: waiting for it")
        time.sleep(POLL_S)


def owner(folder: Path, choices: Sequence[Sequence[str]]) -> str:
    """ " (process 123)" for a person; the number may be that of a namespace."""
    try:
        number = path_of(folder, choices[0][0]).read_text()
    except (OSError, IndexError):
        return ""
    return f" (process {number})" if number.isdecimal() else ""


def is_locked(folder: Path, uuid: str) -> bool:
    """Whether some run has it now, or an orphan of one."""
    held = try_lock(folder, [uuid])
    if held:
        held.release()
    return held is None
