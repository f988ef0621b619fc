"""Keeps a pool running for a worker: starts one where none answers, stops its own."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.pool import client

log = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[2]
# Pause before a pool that ended is started again.
PAUSE_S = 30.0
GRACE_S = 5.0
# For a pool to answer; without one every check starts cold.
WAIT_S, LOOK_S = 30.0, 0.05


def command(path: str, memory_mib: int, *options: str) -> list[str]:
    """The pool's command line, to be run in ROOT."""
    pool = [sys.executable, "-m", "runner.pool", "--socket", path]
    return [*pool, "--memory-mib", str(memory_mib), *options]


class PoolKeeper:
    """Keeps a pool at this socket while the caller lives; none with 0 MiB."""

    def __init__(self, path: str, memory_mib: int) -> None:
        self.path = path
        self.memory_mib = memory_mib
        self.process: subprocess.Popen[bytes] | None = None
        self.due = 0.0

    def ensure(self) -> None:
        """Start a pool unless one answers. Returns at once."""
        if not self.memory_mib or time.monotonic() < self.due:
            return
        if self.process and self.process.poll() is None:
            return
        if client.is_there(self.path):
            return
        self.due = time.monotonic() + PAUSE_S
        parent = ("--with-parent", str(os.getpid()))
        try:
            self.process = subprocess.Popen(  # noqa: S603
                command(self.path, self.memory_mib, *parent),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            log.warning("No pool, checks start cold: %s", error)

    def stop(self) -> None:
        """Stop the pool if this keeper started it; it ends its own children."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


@contextmanager
def running(path: str, memory_mib: int) -> Iterator[None]:
    """A warm pool while it lasts: a worker's where one runs, else one of its own."""
    keeper = PoolKeeper(path, memory_mib)
    keeper.ensure()
    try:
        deadline = time.monotonic() + WAIT_S
        while keeper.process and keeper.process.poll() is None:
            if client.is_there(keeper.path) or time.monotonic() > deadline:
                break
            time.sleep(LOOK_S)
        yield
    finally:
        keeper.stop()
