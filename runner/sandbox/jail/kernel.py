"""System calls that Python does not wrap. Linux, standard library only, no torch.

Runs under any Python from 3.8 on, in processes that must not import anything more.
"""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False  # as mypy knows it; typing alone takes 10 ms to import
if TYPE_CHECKING:
    from typing import Callable, Dict, Set

libc = ctypes.CDLL(None, use_errno=True)
libc_with_gil = ctypes.PyDLL(None, use_errno=True)

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN = 6, 7, 21
LAST_CAP = 63
CAPABILITY_VERSION_3 = 0x20080522

SIGKILL, SIGPIPE, SIGCHLD, SIGXFSZ = 9, 13, 17, 25

MACHINE = os.uname().machine
# Where the two tables of system calls differ; from 424 on all machines agree.
NUMBERS: Dict[str, Dict[str, int]] = {
    "x86_64": {"clone": 56, "pivot_root": 155, "capset": 126},
    "aarch64": {"clone": 220, "pivot_root": 41, "capset": 91},
}


def failed(what: str) -> OSError:
    """The error that the last call of libc left, with what was tried."""
    number = ctypes.get_errno()
    return OSError(number, "%s: %s" % (what, os.strerror(number)))


def check(result: int, what: str) -> int:
    """The result of a call of libc; raises OSError where it is -1."""
    if result == -1:
        raise failed(what)
    return result


def refused(action: Callable[[], object], *errors: int) -> bool:
    """Whether the kernel denies the action with one of these errors."""
    try:
        result = action()
    except OSError as error:
        return error.errno in errors
    return result == -1 and ctypes.get_errno() in errors


def syscall(number: int, *arguments: object) -> int:
    """A raw system call; raises OSError."""
    values = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *values)
    return check(int(result), "system call %d" % number)


def clone(flags: int) -> int:
    """os.fork() with flags, as for a process of one thread. Raises OSError.

    libc still caches the thread id of the parent: the child forks once more, by
    os.fork(), before it runs code of others.
    """
    python = ctypes.pythonapi
    number = ctypes.c_long(NUMBERS[MACHINE]["clone"])
    nothing = [ctypes.c_ulong(0)] * 4  # no stack of its own: a copy, as after a fork
    python.PyOS_BeforeFork()
    # Through PyDLL, which keeps the GIL: the child could not take it again.
    pid = int(libc_with_gil.syscall(number, ctypes.c_ulong(flags | SIGCHLD), *nothing))
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return check(pid, "clone")


def prctl(option: int, value: int = 0) -> None:
    # A missing argument would be whatever the register holds.
    values = [ctypes.c_ulong(n) for n in (value, 0, 0, 0)]
    check(libc.prctl(option, *values), "prctl(%d)" % option)


def die_with_parent() -> None:
    """SIGKILL for this process once the thread that forked it has ended."""
    prctl(PR_SET_PDEATHSIG, SIGKILL)


def effective_capabilities() -> int:
    """The bits of CapEff; 0 where /proc is not readable."""
    try:
        with open("/proc/self/status") as file:
            masks = [line.split()[1] for line in file if line.startswith("CapEff:")]
    except OSError:
        masks = []
    return int(masks[0], 16) if masks else 0


def may_administer() -> bool:
    """Whether namespaces, mounts and other uids work without a user namespace."""
    required = (1 << CAP_SYS_ADMIN) | (1 << CAP_SETUID) | (1 << CAP_SETGID)
    return effective_capabilities() & required == required


class _CapHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _CapData(ctypes.Structure):
    _fields_ = [
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    ]


def bound_capabilities() -> None:
    """Clear bounding and ambient set: no program executed here gains capabilities."""
    for capability in range(LAST_CAP + 1):
        if libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) == -1:
            break  # EINVAL: past the last; EPERM: not privileged to begin with.
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


def drop_capabilities() -> None:
    """Drop all capabilities of this process."""
    header = _CapHeader(CAPABILITY_VERSION_3, 0)
    none = (_CapData * 2)()
    syscall(NUMBERS[MACHINE]["capset"], ctypes.byref(header), ctypes.byref(none))


def children(pid: int) -> Set[int]:
    """The processes that any thread of `pid` has forked and not yet reaped."""
    pids: Set[int] = set()
    try:
        threads = os.listdir("/proc/%d/task" % pid)
    except OSError:
        return pids
    for thread in threads:
        try:
            with open("/proc/%d/task/%s/children" % (pid, thread)) as file:
                pids.update(map(int, file.read().split()))
        except OSError:
            continue
    return pids


def descendants(pid: int) -> Set[int]:
    """All descendants of `pid`; empty where the kernel has no list of children."""
    pids: Set[int] = set()
    pending = [pid]
    while pending:
        new = children(pending.pop()) - pids
        pids |= new
        pending.extend(new)
    return pids


def open_descriptors() -> Set[int]:
    """The descriptors of this process."""
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return set(range(4096))
    return {int(name) for name in names}


def close_all_but(*kept: int) -> None:
    """Close every descriptor that is not named; standard streams become /dev/null."""
    for number in open_descriptors() - set(kept) - {0, 1, 2}:
        try:
            os.close(number)
        except OSError:
            continue  # The one that listed them is gone already.
    null = os.open(os.devnull, os.O_RDWR)
    for number in {0, 1, 2} - set(kept):
        os.dup2(null, number)
    if null > 2:
        os.close(null)
