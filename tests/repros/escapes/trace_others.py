"""Attaches to its parent and to others, reads their memory, takes their files."""

import ctypes
import os


def is_spared(pid):
    """Whether this is the process that asked, or one above it; numbers repeat."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            started = file.read().rpartition(") ")[2].split()[19]
    except OSError:
        return True
    return not TARGETS or [pid, started] in TARGETS["spared"]


ATTACH, DETACH = 16, 17
PROCESS_VM_READV, PIDFD_OPEN, PIDFD_GETFD = 310, 434, 438


def reaches(libc, pid):
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    if libc.ptrace(ATTACH, pid, 0, 0) == 0:
        os.waitpid(pid, 0x40000000)
        libc.ptrace(DETACH, pid, 0, 0)
        yield "ptrace"
    try:
        open("/proc/%d/mem" % pid, "rb").close()
        yield "mem"
    except OSError:
        pass
    room = ctypes.create_string_buffer(8)
    there = (ctypes.c_size_t * 2)(0x400000, 8)
    here = (ctypes.c_size_t * 2)(ctypes.addressof(room), 8)
    got = libc.syscall(PROCESS_VM_READV, pid, here, 1, there, 1, 0)
    if got >= 0 or ctypes.get_errno() == 14:  # EFAULT: it was allowed to look
        yield "process_vm_readv"
    handle = libc.syscall(PIDFD_OPEN, pid, 0)
    if handle >= 0 and libc.syscall(PIDFD_GETFD, handle, 0, 0) >= 0:
        yield "pidfd_getfd"


def trigger():
    libc = ctypes.CDLL(None, use_errno=True)
    pids = set(TARGETS.get("victims", []))
    if not is_spared(os.getppid()):
        pids.add(os.getppid())
    if TARGETS and os.readlink("/proc/self/ns/pid") != TARGETS["pid_namespace"]:
        pids |= {int(name) for name in os.listdir("/proc") if name.isdigit()}
    found = []
    for pid in sorted(pids - {os.getpid()}):
        found += ["%d %s" % (pid, how) for how in reaches(libc, pid)]
    return {"reached": len(found), "ran": ", ".join(found)[:4000]}
