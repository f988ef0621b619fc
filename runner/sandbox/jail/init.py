"""The init of one check: starts it, reaps, reports its status, kills what is left.

It is process 1 of the check's own pid namespace, or the subreaper where there is none.
Only init has the descriptor for the report; the check never does.
"""

from __future__ import annotations

import os
import select
import time

import kernel

TYPE_CHECKING = False  # as mypy knows it; typing alone takes 10 ms to import
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, NoReturn, Optional, Sequence, Set

LEFTOVERS_S = 2.0  # how long it tries to kill what is left


def run(
    prepare: Callable[[], None],
    check: Callable[[], None],
    report_fd: int,
    *,
    alone: bool = True,
    keep: Sequence[int] = (),
    lifelines: Sequence[int] = (),
) -> NoReturn:
    """Fork a process that calls `prepare()` and `check()`; watch it to its end.

    `prepare` is trusted and may execute a program; its exceptions are reported. `check`
    must end its process. `report_fd`: one end of a SOCK_SEQPACKET pair. It gets the
    packet {"ready": true} at once, with this process's id if the other end asks for
    credentials, and one when no process is left: {"status": as from waitpid, "utime",
    "stime", "maxrss_kib", "error": null or why nothing ran}. Everything is killed when
    the other end closes or sends anything. `alone`: whether this is process 1 of a pid
    namespace of its own. `keep`: descriptors that only this process keeps open, such as
    locks. `lifelines`: everything is killed once one is readable or at its end.
    """
    if not alone:
        become_subreaper()
    wake, waker = os.pipe()
    errors, error_fd = os.pipe()
    for pipe in (wake, waker, errors):
        os.set_blocking(pipe, False)
    pid = os.fork()
    own = {report_fd, wake, waker, errors, *keep, *lifelines}
    if pid == 0:
        start(prepare, check, error_fd, own)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    kernel.close_all_but(*own)
    write(report_fd, b'{"ready": true}')
    wake_on_sigchld(waker)
    ended = watch(pid, (report_fd, *lifelines), wake, alone)
    end_leftovers(alone)
    ended["error"] = error_in(errors)
    say(report_fd, ended)
    os._exit(0)


def error_in(errors: int) -> Optional[str]:
    """Why the check was not started, from its pipe; None where it was."""
    try:
        return os.read(errors, 4096).decode("utf-8", "replace") or None
    except BlockingIOError:
        return None  # Still open in the check: no error.


def become_subreaper() -> None:
    """Adopt what the check leaves behind."""
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    # It must outlive the requester to kill what would outlive both; it notices the end
    # of the requester at `report_fd`.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, 0)


def wake_on_sigchld(waker: int) -> None:
    """Write a byte to `waker` for each child that ends; ignore other signals."""
    # Imported here, in parallel to the start of the check: they take 10 ms.
    import json  # noqa: F401  # for the end
    import signal

    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def say(report_fd: int, message: Dict[str, Any]) -> None:
    import json  # Not at the top: see above.

    write(report_fd, json.dumps(message).encode())


def write(report_fd: int, data: bytes) -> None:
    try:
        os.write(report_fd, data)
    except OSError:
        pass  # The requester is gone.


def start(
    prepare: Callable[[], None],
    check: Callable[[], None],
    error_fd: int,
    not_mine: Set[int],
) -> NoReturn:
    """In the child: close the descriptors of init, then become the check."""
    try:
        kernel.die_with_parent()
        for number in not_mine:
            os.close(number)
        prepare()
    except BaseException as error:
        os.write(error_fd, ("%s: %s" % (type(error).__name__, error)).encode()[:4096])
        os._exit(1)
    os.close(error_fd)
    try:
        check()
    finally:
        os._exit(1)


def watch(pid: int, orders: Sequence[int], wake: int, alone: bool) -> Dict[str, Any]:
    """Reap until `pid` has ended; kill everything when an order arrives."""
    poll = select.poll()
    for number in orders:
        poll.register(number, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        for reaped_pid, status, usage in reaped():
            if reaped_pid == pid:
                return {
                    "status": status,
                    "utime": usage.ru_utime,
                    "stime": usage.ru_stime,
                    "maxrss_kib": usage.ru_maxrss,
                    "error": None,
                }
        for number, _ in poll.poll():
            if number != wake:
                poll.unregister(number)
                kill_all(alone)
            else:
                drain(wake)


def reaped() -> Iterator[Any]:
    """(pid, status, usage) of every child that has ended by now."""
    while True:
        try:
            result = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not result[0]:
            return
        yield result


def drain(wake: int) -> None:
    try:
        os.read(wake, 4096)
    except BlockingIOError:
        pass


def kill_all(alone: bool) -> None:
    """SIGKILL for every process of the check."""
    for pid in [-1] if alone else kernel.descendants(os.getpid()):
        try:
            os.kill(pid, kernel.SIGKILL)
        except OSError:
            continue  # It has ended, or became another user.


def end_leftovers(alone: bool) -> None:
    """Kill and reap until no process of the check is left."""
    deadline = time.monotonic() + LEFTOVERS_S
    while time.monotonic() < deadline:
        kill_all(alone)
        for _ in reaped():
            pass
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        time.sleep(0.001)
