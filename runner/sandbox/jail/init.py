"""The little init of one check: starts it, reaps, reports its status, leaves nothing.

It is process 1 of the check's own process namespace; where there is none it adopts
what the check's processes leave behind. It holds the only way to report a status;
the check never has it.
"""

from __future__ import annotations

import os
import select
import time

import kernel

TYPE_CHECKING = False  # as mypy knows it; typing alone takes 10 ms to import
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, NoReturn, Sequence, Set

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
    """Fork a process that does `prepare()` and `check()`; watch it to its end.

    `prepare` is trusted and may execute a program; what it raises is reported. `check`
    must end its process. `report_fd`: one end of a SOCK_SEQPACKET pair. It gets the
    packet {"ready": true} at once, which carries this process's id where the other end
    asks for credentials, and one more when no process is left: {"status": as from
    waitpid, "utime", "stime", "maxrss_kib", "error": null or why nothing ran}. When
    the other end closes or sends anything, everything is killed. `alone`: whether this
    is process 1 of a namespace of its own. `keep`: descriptors that only this process
    holds on to (a lock that no leftover of the check may outlive). `lifelines`:
    everything is killed once one of them is readable or at its end.
    """
    if not alone:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        # It must outlive whoever asked, to kill what would outlive both: the end of
        # `report_fd` tells it in time.
        kernel.prctl(kernel.PR_SET_PDEATHSIG, 0)
    wake, waker = os.pipe()
    trouble, troubled = os.pipe()
    for pipe in (wake, waker, trouble):
        os.set_blocking(pipe, False)
    pid = os.fork()
    if pid == 0:
        start(
            prepare,
            check,
            troubled,
            {report_fd, wake, waker, trouble, *keep, *lifelines},
        )
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    kernel.close_all_but(report_fd, wake, waker, trouble, *keep, *lifelines)
    write(report_fd, b'{"ready": true}')
    hear_of_children(waker)
    ended = watch(pid, (report_fd, *lifelines), wake, alone)
    end_leftovers(alone)
    try:
        ended["error"] = os.read(trouble, 4096).decode("utf-8", "replace") or None
    except BlockingIOError:
        pass  # Still open somewhere: nothing was said.
    say(report_fd, ended)
    os._exit(0)


def hear_of_children(waker: int) -> None:
    """A byte to `waker` for each child that ends; no other signal counts."""
    # Imported here, while the check starts up beside it: they take 10 ms.
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
        pass  # Whoever asked is gone.


def start(
    prepare: Callable[[], None],
    check: Callable[[], None],
    troubled: int,
    not_mine: Set[int],
) -> NoReturn:
    """The child: close what belongs to init, then become the check."""
    try:
        kernel.die_with_parent()
        for number in not_mine:
            os.close(number)
        prepare()
    except BaseException as error:
        os.write(troubled, ("%s: %s" % (type(error).__name__, error)).encode()[:4096])
        os._exit(1)
    os.close(troubled)
    try:
        check()
    finally:
        os._exit(1)


def watch(pid: int, orders: Sequence[int], wake: int, alone: bool) -> Dict[str, Any]:
    """Reap until `pid` has ended; kill everything once somebody orders it."""
    poll = select.poll()
    for number in orders:
        poll.register(number, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        for found, status, usage in reaped():
            if found == pid:
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
            found = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not found[0]:
            return
        yield found


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
    """Kill and reap until nothing is left that the check started."""
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
