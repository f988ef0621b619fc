"""Process supervisor: starts child processes, restarts and stops them.

Standard library only. Each child leads a process group of its own, so that Ctrl-C in
the terminal reaches only the parent, which stops the children in order.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
POLL_S = 0.2
GRACE_S = 8
# A child that lived this long before it died is restarted without delay.
STABLE_S = 60
MAX_BACKOFF_S = 30
# One that runs once is started again so often where a signal ended it.
MAX_KILLS = 3
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def die_with_parent() -> None:
    if LIBC is not None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def adopt_orphans() -> None:
    """Become the subreaper: the parent of every descendant whose own parent ends."""
    if LIBC is not None:
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)


class Child:
    """A command that is kept running, or runs `once`: to its own end, good or bad.

    `nice`: how far it gives way to the others where the processor is busy.
    `keeps`: file descriptors that it inherits beside the standard ones.
    """

    def __init__(
        self,
        name: str,
        command: list[str],
        *,
        once: bool = False,
        nice: int = 0,
        cwd: Path | None = None,
        keeps: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.command = command
        self.cwd = cwd
        self.once = once
        self.nice = nice
        self.keeps = keeps
        self.parent = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.started = 0.0
        self.restart_at: float | None = 0.0
        self.failures = 0

    def start(self) -> None:
        self.started, self.restart_at = time.monotonic(), None
        self.parent = os.getpid()
        self.process = subprocess.Popen(  # noqa: S603
            self.command,
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=self.keeps,
            preexec_fn=self.prepare,
        )

    def prepare(self) -> None:
        """In the child, before its command is executed."""
        die_with_parent()
        if os.getppid() != self.parent:  # it died before it could be watched
            os._exit(1)
        os.nice(self.nice)

    def signal(self, number: int) -> None:
        """Send a signal to the child and everything in its process group."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def is_over(self) -> bool:
        """Whether it has ended and is not started again."""
        if not self.once or self.process is None or self.is_alive:
            return False
        if self.restart_at is not None:
            return False
        was_killed = self.process.returncode < 0
        return not was_killed or self.failures >= MAX_KILLS


class Supervisor:
    """Keeps children running until SIGINT, SIGTERM or SIGHUP."""

    def __init__(self, children: list[Child], progress: Callable[[str], None]) -> None:
        self.children = children
        self.progress = progress
        self.stopping = False

    def run(self, tick: Callable[[], None]) -> None:
        """Keep the children running until a stop is requested; `tick` is called often.

        When it returns, no descendant is left.
        """
        before = {number: signal.signal(number, self.ask_stop) for number in STOPS}
        adopt_orphans()
        try:
            while not self.stopping:
                self.check_children()
                tick()
                reap(self.owned())
                time.sleep(POLL_S)
        finally:
            self.stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def ask_stop(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True

    def owned(self) -> set[int]:
        return {child.process.pid for child in self.children if child.process}

    def check_children(self) -> None:
        """Start children that are due; schedule the restart of those that died."""
        now = time.monotonic()
        for child in self.children:
            if child.restart_at is not None:
                if now >= child.restart_at:
                    child.start()
            elif not child.is_alive and not child.is_over:
                was_stable = now - child.started > STABLE_S
                child.failures = 0 if was_stable else child.failures + 1
                backoff_s = min(2**child.failures - 1, MAX_BACKOFF_S)
                child.restart_at = now + backoff_s
                self.progress(f"{child.name} {ending(child)}: restart in {backoff_s} s")

    def stop(self) -> None:
        """Stop every child, then kill all remaining descendants."""
        for child in self.children:
            child.signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        for child in self.children:
            if child.process is None:
                continue
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, deadline - time.monotonic()))
            child.signal(signal.SIGKILL)
            child.process.wait()
        kill_descendants()


def ending(child: Child) -> str:
    code = child.process.returncode if child.process else 0
    return f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"


def child_pids(pid: int | str = "self") -> Iterator[int]:
    """The direct children of a process, as the kernel lists them."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            yield from map(int, path.read_text().split())


def reap(owned: set[int]) -> None:
    """Reap adopted processes that have ended."""
    for pid in set(child_pids()) - owned:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def kill_descendants() -> None:
    """Kill descendants level by level: each kill reparents the next level to us."""
    while pids := list(child_pids()):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
