"""Where checks are served warm: the client of the pool.

Standard library only. A check goes warm where the pool has a parent for its build, else
to the cold start that the caller gives; its report says which it was.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import harness
from runner.sandbox.cgroups import Group
from runner.sandbox.jail import kernel, wire
from runner.sandbox.process import KILL_GRACE_S, BoxProcess

PROTOCOL = 1
# Longer than a parent may take that has to be started first.
PATIENCE_S = 90.0
COMPILER_PATIENCE_S = 210.0
# For the kernel to close everything that a killed pool had open.
PARTING_S = 1.0


class NotWarm(Exception):
    """The pool does not serve this check; the text says why."""


@functools.cache
def digest() -> str:
    """Of the code as this process runs it; client and pool must have the same."""
    return digest_of_files()


def digest_of_files() -> str:
    """Of every file that makes a warm check, as it is now."""
    here = Path(harness.__file__).parent
    names = ("harness.py", "pool/*.py", "sandbox/*.py", "sandbox/jail/*.py")
    found = hashlib.sha256(b"%d" % PROTOCOL)
    for path in sorted(path for name in names for path in here.glob(name)):
        name = str(path.relative_to(here))
        found.update(name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


@contextmanager
def address(path: str) -> Iterator[str]:
    """A name of this socket that fits the 107 bytes the kernel has for it."""
    folder, name = os.path.split(os.path.abspath(path))  # noqa: PTH100
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{name}"
    finally:
        os.close(handle)


def connect(path: str, timeout_s: float) -> socket.socket:
    """A connection to the pool. Raises OSError where there is none."""
    pool = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        pool.settimeout(timeout_s)
        with address(path) as name:
            pool.connect(name)
    except OSError:
        pool.close()
        raise
    return pool


def is_there(path: str) -> bool:
    """Whether a pool listens at this socket."""
    try:
        connect(path, 1).close()
    except OSError:
        return False
    return True


def status(path: str) -> dict[str, Any] | None:
    """What the pool says of itself; None where there is none."""
    try:
        with connect(path, 10) as pool:
            wire.send(pool, {"op": "status"})
            answer = wire.receive(pool)
    except (OSError, ValueError):
        return None
    return answer[0] if answer else None


# --- one warm check ----------------------------------------
@dataclass
class Child:
    """A process of the pool that waits for its check."""

    pool: socket.socket
    control: socket.socket
    request: socket.socket
    pidfd: int

    def close(self) -> None:
        """Whatever it does ends; may be called twice."""
        for sock in (self.control, self.request, self.pool):
            sock.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
        self.pidfd = -1


def ask(path: str, want: dict[str, Any]) -> Child:
    """A child that waits, from the pool. Raises NotWarm."""
    patience_s = COMPILER_PATIENCE_S if want.get("compiler") else PATIENCE_S
    try:
        pool = connect(path, patience_s)
    except OSError as error:
        raise NotWarm(f"no pool: {error.strerror}") from error
    try:
        wire.send(pool, {"op": "child", "digest": digest(), **want})
        answer = wire.receive(pool)
    except (OSError, ValueError) as error:
        pool.close()
        raise NotWarm(f"the pool does not answer: {error}") from error
    if answer is None or len(answer[1]) != 3:
        pool.close()
        reason = answer[0].get("cold") if answer else "it closed the connection"
        raise NotWarm(str(reason))
    # With a time-out, Python would wait even where it is asked not to.
    pool.settimeout(None)
    control, request, pidfd = answer[1]
    return Child(
        pool, socket.socket(fileno=control), socket.socket(fileno=request), pidfd
    )


class WarmProcess(BoxProcess):
    """A check in a process that the pool has forked; `order` is what it is to run."""

    def __init__(
        self, child: Child, order: dict[str, Any], group: Group | None, token: str = ""
    ) -> None:
        self.child = child
        self.order = order
        self.pid = pid_of(child.pidfd)
        self.pool_died = False
        pipes = [os.pipe() for _ in range(4)]
        (nonce_in, self.nonce_fd), *outputs = pipes
        self.theirs = [nonce_in, *(writer for _, writer in outputs)]
        stdout_fd, stderr_fd, channel_fd = (reader for reader, _ in outputs)
        super().__init__(
            child.control,
            stdout_fd,
            stderr_fd,
            channel_fd,
            self.submit,
            group=group,
            token=token,
        )

    def submit(self, nonce: str) -> None:
        """Send the request, and the nonce that sets the check going."""
        entering = self.group.entry_fds() if self.group else []
        os.write(self.nonce_fd, nonce.encode() + b"\n")
        # A child that died already is seen by `poll`.
        with contextlib.suppress(OSError), self.child.request as request:
            wire.send_stream(request, self.order, [*self.theirs, *entering])
        wire.close_all([*self.theirs, *entering, self.nonce_fd])
        self.theirs = []

    def poll(self) -> harness.Ended | None:
        was_running = self.ended is None
        found = super().poll()
        if was_running and found and found.status is None:
            self.pool_died = self.pool_goes()
        return found

    def pool_goes(self) -> bool:
        """Whether the pool ended too: its check may be seen to end before it."""
        hung_up = select.poll()
        hung_up.register(self.child.pool, select.POLLIN)
        hung_up.poll(PARTING_S * 1000)
        return self.pool_gone()

    def _insist(self) -> None:
        if self.killed_at is None:
            if self.pool_gone():
                self.pool_died = True
                self.kill()
        elif time.monotonic() - self.killed_at > KILL_GRACE_S:
            # With its init, everything in a namespace dies.
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self.child.pidfd, signal.SIGKILL)

    def pool_gone(self) -> bool:
        try:
            flags = socket.MSG_DONTWAIT | socket.MSG_PEEK
            return not self.child.pool.recv(1, flags)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def members(self) -> list[int]:
        return sorted(kernel.descendants(self.pid))

    def close(self) -> None:
        super().close()
        if self.theirs:
            wire.close_all([*self.theirs, self.nonce_fd])
        self.child.close()


def pid_of(pidfd: int) -> int:
    """The number of a process as this process sees it; -1 once it has ended."""
    text = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
    found = re.search(r"^Pid:\s+(-?\d+)$", text, re.MULTILINE)
    return int(found.group(1)) if found else -1
