"""Client of the warm pool: requests a child process and runs one check in it.

Standard library only. Where the pool cannot serve a check, the caller starts it cold;
the report of a check says which it was.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portable import harness
from runner.sandbox import box
from runner.sandbox.cgroups import Group
from runner.sandbox.jail import kernel, wire
from runner.sandbox.process import BoxProcess, Pipes

PROTOCOL = 1
# Longer than the start of a parent takes (parents.START_S).
TIMEOUT_S = 90.0
COMPILER_TIMEOUT_S = 210.0
# How often a run that waits for its parent is asked whether it was cancelled.
LOOK_S = 0.2
# Time for the kernel to close the connections of a killed pool.
POOL_EXIT_S = 1.0


class NotWarm(Exception):
    """The pool cannot serve this check; the text says why."""


@functools.cache
def digest() -> str:
    """Digest of the code that this process runs; client and pool must agree on it."""
    return digest_of_files()


def digest_of_files() -> str:
    """Digest of every file that takes part in a warm check, as it is on disk now."""
    here = Path(harness.__file__).parents[2]
    folders = (
        "portable/harness",
        "runner/pool",
        "runner/sandbox",
        "runner/sandbox/jail",
    )
    digest = hashlib.sha256(b"%d" % PROTOCOL)
    for path in sorted(path for name in folders for path in here.glob(f"{name}/*.py")):
        name = str(path.relative_to(here))
        digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@contextmanager
def address(path: str) -> Iterator[str]:
    """A path of this socket within the kernel's limit of 107 bytes (unix(7))."""
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


def ask(
    path: str, message: dict[str, Any], timeout_s: float = 1
) -> dict[str, Any] | None:
    """What the pool answers; None where no pool listens, or it does not answer."""
    try:
        with connect(path, timeout_s) as pool:
            wire.send(pool, message)
            answer = wire.receive(pool)
    except (OSError, ValueError):
        return None
    return answer[0] if answer else None


def status(path: str) -> dict[str, Any] | None:
    """The status that the pool reports; None where no pool listens."""
    return ask(path, {"op": "status"}, timeout_s=10)


def cold(path: str) -> dict[str, str] | None:
    """Interpreter -> why its checks start cold for now; None where no pool listens."""
    answer = ask(path, {"op": "cold"})
    if answer is None:
        return None
    # A pool of another version refuses what it does not know, in a text.
    rows = answer["cold"] if isinstance(answer.get("cold"), list) else []
    return {str(row["interpreter"]): str(row["reason"]) for row in rows}


def warm(path: str, key: dict[str, Any]) -> bool:
    """Have the pool start this parent now, before a check asks for it.

    Returns at once; False where no pool answers yet. Whether there is memory for the
    parent is for the pool to say.
    """
    return ask(path, {"op": "warm", "digest": digest(), **key}) is not None


# --- one warm check ----------------------------------------
@dataclass
class Child:
    """The connections to a forked process of the pool that waits for its check."""

    pool: socket.socket
    control: socket.socket
    request: socket.socket
    pidfd: int

    def close(self) -> None:
        """End the child, whatever it does. Idempotent."""
        for sock in (self.control, self.request, self.pool):
            sock.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
        self.pidfd = -1


class Stopped(Exception):
    """The run was cancelled while its check waited for a parent."""


def request_child(
    path: str,
    request: dict[str, Any],
    cancelled: Callable[[], bool] | None = None,
) -> Child:
    """Request a child from the pool. Raises NotWarm, Stopped.

    A parent that compiles may take minutes to start; `cancelled()` is asked meanwhile.
    """
    timeout_s = COMPILER_TIMEOUT_S if request.get("compiler") else TIMEOUT_S
    try:
        pool = connect(path, timeout_s)
    except OSError as error:
        raise NotWarm(f"no pool: {error.strerror}") from error
    try:
        wire.send(pool, {"op": "child", "digest": digest(), **request})
        await_answer(pool, timeout_s, cancelled)
        response = wire.receive(pool)
    except (OSError, ValueError) as error:
        pool.close()
        raise NotWarm(f"the pool does not answer: {error}") from error
    except Stopped:
        pool.close()
        raise
    if response is None or len(response[1]) != 3:
        pool.close()
        reason = response[0].get("cold") if response else "it closed the connection"
        raise NotWarm(str(reason))
    # With a timeout, Python would wait despite MSG_DONTWAIT.
    pool.settimeout(None)
    control, request_fd, pidfd = response[1]
    return Child(
        pool, socket.socket(fileno=control), socket.socket(fileno=request_fd), pidfd
    )


def await_answer(
    pool: socket.socket, timeout_s: float, cancelled: Callable[[], bool] | None
) -> None:
    """Raises TimeoutError, Stopped."""
    answer = select.poll()
    answer.register(pool, select.POLLIN)
    deadline = time.monotonic() + timeout_s
    while not answer.poll(LOOK_S * 1000):
        if cancelled and cancelled():
            raise Stopped
        if time.monotonic() > deadline:
            raise TimeoutError("timed out")


class WarmProcess(BoxProcess):
    """A check in a process forked by the pool. `order`: see `WarmStart.order`."""

    def __init__(
        self,
        child: Child,
        order: dict[str, Any],
        group: Group | None,
        token: str = "",
        *,
        sealed: bool = False,
    ) -> None:
        self.child = child
        self.order = order
        self.pid = pid_of(child.pidfd)
        self.pool_died = False
        pipes = Pipes()
        self.child_fds, self.nonce_fd = pipes.child_ends, pipes.nonce_out
        super().__init__(
            *(child.control, pipes.readers, self.submit),
            group=group,
            token=token,
            sealed=sealed,
        )
        self.begun = True  # else the pool had not delivered it

    def submit(self, nonce: str) -> None:
        """Send the order and the nonce, which starts the check."""
        entering = self.group.entry_fds() if self.group else []
        os.write(self.nonce_fd, nonce.encode() + b"\n")
        # A child that died already is seen by `poll`.
        with contextlib.suppress(OSError), self.child.request as request:
            wire.send_stream(request, self.order, [*self.child_fds, *entering])
        wire.close_all([*self.child_fds, *entering, self.nonce_fd])
        self.child_fds = []

    def poll(self) -> harness.Ended | None:
        was_running = self.ended is None
        ended = super().poll()
        if was_running and ended and ended.status is None:
            self.pool_died = self.pool_died_too()
        return ended

    def pool_died_too(self) -> bool:
        """Whether the pool ended too, for which its check may be the first sign."""
        hung_up = select.poll()
        hung_up.register(self.child.pool, select.POLLIN)
        hung_up.poll(POOL_EXIT_S * 1000)
        return self.pool_gone()

    def _kill_if_late(self) -> None:
        if self.killed_at is None:
            if self.pool_gone():
                self.pool_died = True
                self.kill()
        elif time.monotonic() - self.killed_at > box.KILL_GRACE_S:
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
        if self.child_fds:
            wire.close_all([*self.child_fds, self.nonce_fd])
        self.child.close()


def pid_of(pidfd: int) -> int:
    """The pid of a pidfd in this process's namespace; -1 once it has ended."""
    text = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
    match = re.search(r"^Pid:\s+(-?\d+)$", text, re.MULTILINE)
    return int(match.group(1)) if match else -1
