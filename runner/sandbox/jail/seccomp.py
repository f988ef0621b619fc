"""seccomp: the system calls that a check is denied, as a BPF program.

A deny-list: torch, compilers and drivers use too many calls for an allow-list. A denied
call fails with an error and does not kill. Numbers are those of the kernel's tables for
x86_64 and aarch64.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

import kernel

TYPE_CHECKING = False  # as mypy knows it; typing alone takes 10 ms to import
if TYPE_CHECKING:
    from typing import Dict, List, Sequence, Tuple

    Code = Tuple[int, int, int, int]
    # A system call number and its filter code; falling through allows the call.
    Rule = Tuple[int, List[Code]]

PR_SET_SECCOMP = 22
MODE_FILTER = 2
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_BIT = 0x40000000

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN, AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
# Offsets in struct seccomp_data; arguments are 64 bits, little endian.
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16

CLONE_NEWUSER, PTRACE_TRACEME, AF_VSOCK = 0x10000000, 0, 40
NAMESPACE_FLAGS = 0x7E020000  # every CLONE_NEW* that clone(2) takes
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
FILE_TYPE, CHARACTER, BLOCK = 0o170000, 0o020000, 0o060000
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCKET_TYPE, STREAM, PACKETS = 0xF, 1, 5
# Kinds of ioctl for files of any file system: "f", "X", "v" and those of btrfs, such as
# FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_SETVERSION and FS_IOC_ENABLE_VERITY.
IOCTL_KIND, FILE_KINDS = 0xFF00, (0x6600, 0x5800, 0x7600, 0x9400)
# What opens without a right to write and yet empties: access mode 0, or 3 (neither).
O_TRUNC, O_ACCMODE = 0o1000, 0o3

# With namespaces; without; and without where the files of the machine belong to the
# user of the run, too.
LEVELS = ("jail", "confined", "shared")

# name -> numbers on x86_64 and aarch64; 0: there is no such call.
DENIED: Dict[str, Tuple[int, int]] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    # namespaces and mounts, old and new
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    # kernel interfaces with a history of vulnerabilities
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "memfd_secret": (447, 447),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "modify_ldt": (154, 0),
    "uselib": (134, 0),
    "ustat": (136, 0),
    "sysfs": (139, 0),
    # the machine
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "iopl": (172, 0),
    "ioperm": (173, 0),
    "settimeofday": (164, 170),
    "adjtimex": (159, 171),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}
# IPC that is shared with other processes where there is no IPC namespace.
SHARED: Dict[str, Tuple[int, int]] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
}
# Rights, owners, times and attributes of files. Landlock governs none of them, and a
# filter cannot see whose file a path or a descriptor is.
RIGHTS: Dict[str, Tuple[int, int]] = {
    "chmod": (90, 0),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, 0),
    "fchown": (93, 55),
    "lchown": (94, 0),
    "fchownat": (260, 54),
    "utime": (132, 0),
    "utimes": (235, 0),
    "futimesat": (261, 0),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
# Ways to empty a file without opening it for writing, see `no_truncation`.
TRUNCATION: Dict[str, Tuple[int, int]] = {
    "truncate": (76, 45),
    "open": (2, 0),
    "openat": (257, 56),
    "openat2": (437, 437),
}
# Ways to send a signal, denied for SIGKILL to the check itself, see `unkillable`.
SIGNALS: Dict[str, Tuple[int, int]] = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
}
# Which of their arguments is the signal; the first is the process.
SIGNAL_ARGUMENT = dict.fromkeys(SIGNALS, 1)
SIGNAL_ARGUMENT.update(tgkill=2, rt_tgsigqueueinfo=2)
# Denied depending on their arguments, see `rules`.
EXAMINED: Dict[str, Tuple[int, int]] = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "ioctl": (16, 29),
    "prlimit64": (302, 261),
    "mknod": (133, 0),
    "mknodat": (259, 33),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "sendto": (44, 206),
}


def number_of(name: str, machine: str) -> int:
    tables = {**DENIED, **SHARED, **EXAMINED, **SIGNALS, **RIGHTS, **TRUNCATION}
    numbers = tables[name]
    return numbers[list(ARCHITECTURES).index(machine)]


def argument(index: int, high: bool = False) -> Code:
    """Load half of an argument. The kernel reads most as 32 bits: so do the rules."""
    return (LOAD, 0, 0, ARGUMENTS + 8 * index + 4 * high)


def refuse(error: int) -> Code:
    return (RETURN, 0, 0, ERRNO | error)


def refuse_values(index: int, values: Sequence[int], error: int) -> List[Code]:
    code = [argument(index)]
    for value in values:
        code += [(EQUAL, 0, 1, value), refuse(error)]
    return code


def refuse_other_values(index: int, values: Sequence[int], error: int) -> List[Code]:
    left = range(len(values), 0, -1)
    jumps = [(EQUAL, n, 0, value) for n, value in zip(left, values)]  # noqa: B905  # Python 3.8
    return [argument(index), *jumps, refuse(error)]


def masked(mask: int, code: Sequence[Code]) -> List[Code]:
    """The same of the bits of an argument that are in the mask."""
    load, *tests = code
    return [load, (AND, 0, 0, mask), *tests]


def rules(machine: str, level: str) -> List[Rule]:
    """The denied calls at one of LEVELS."""
    filters = {name: [refuse(errno.EPERM)] for name in DENIED}
    # clone3's flags lie in memory; libc falls back to clone.
    filters["clone3"] = [refuse(errno.ENOSYS)]
    filters["clone"] = [
        argument(0),
        (ANY_BIT, 0, 1, NAMESPACE_FLAGS),
        refuse(errno.EPERM),
    ]
    filters["ioctl"] = refuse_values(1, (TIOCSTI, TIOCLINUX), errno.EPERM)
    filters["prlimit64"] = refuse_other_values(0, (0,), errno.EPERM)
    for name, at in (("mknod", 1), ("mknodat", 2)):
        devices = refuse_values(at, (CHARACTER, BLOCK), errno.EPERM)
        filters[name] = masked(FILE_TYPE, devices)
    # Others, such as AF_VSOCK, are not bounded by the network namespace.
    families = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
    filters["socket"] = refuse_other_values(0, families, errno.EACCES)
    if level != "jail":
        filters.update({name: [refuse(errno.EPERM)] for name in SHARED})
        filters.update(without_sockets())
    if level == "shared":
        filters.update({name: [refuse(errno.EPERM)] for name in RIGHTS})
        # As a file system answers that has no such call: programs then do without.
        kinds = refuse_values(1, FILE_KINDS, errno.EOPNOTSUPP)
        filters["ioctl"] = [*filters["ioctl"], *masked(IOCTL_KIND, kinds)]
    return numbered(filters, machine)


def numbered(filters: Dict[str, List[Code]], machine: str) -> List[Rule]:
    """Filters of names as rules, without the calls that a machine does not have."""
    return [
        (number_of(name, machine), code)
        for name, code in filters.items()
        if number_of(name, machine)
    ]


def no_truncation(machine: str) -> List[Rule]:
    """Rules for a Landlock that does not govern truncation: one before ABI 3.

    By these a file is emptied that was opened, if at all, only for reading. openat2 has
    its flags in memory; libc does not use it.
    """
    mask, values = O_TRUNC | O_ACCMODE, (O_TRUNC, O_TRUNC | O_ACCMODE)
    filters = {
        "truncate": [refuse(errno.EPERM)],
        "open": masked(mask, refuse_values(1, values, errno.EPERM)),
        "openat": masked(mask, refuse_values(2, values, errno.EPERM)),
        "openat2": [refuse(errno.ENOSYS)],
    }
    return numbered(filters, machine)


def without_sockets() -> Dict[str, List[Code]]:
    """Rules against the network and the machine's sockets, named or abstract.

    The address of a datagram is in memory, which a filter cannot read: so datagram
    sockets are denied, and SOCK_RAW, which becomes one.
    """
    no_other = refuse_other_values(1, (STREAM, PACKETS), errno.EPERM)
    no_datagram = masked(SOCKET_TYPE, no_other)
    return {
        "socket": [*refuse_other_values(0, (AF_UNIX,), errno.EACCES), *no_datagram],
        "socketpair": no_datagram,
        "connect": [refuse(errno.EACCES)],
        "sendto": [
            argument(4),
            (EQUAL, 0, 2, 0),
            argument(4, high=True),
            (EQUAL, 1, 0, 0),
            refuse(errno.EACCES),
        ],
    }


def unkillable(pid: int, group: int, machine: str) -> List[Rule]:
    """Nothing in the check may send SIGKILL to its process or to its first group.

    So a check that died of it was killed from outside, or by the kernel. A thread or a
    descriptor does not tell here whose it is: they are not to be killed at all.
    """
    ours = [value & 0xFFFFFFFF for value in (pid, 0, -1, -pid, -group)]
    found = []
    for name, at in SIGNAL_ARGUMENT.items():
        whom = refuse_values(0, sorted(set(ours)), errno.EPERM)
        if name in ("tkill", "pidfd_send_signal"):
            whom = [refuse(errno.EPERM)]
        code = [argument(at), (EQUAL, 0, len(whom), kernel.SIGKILL), *whom]
        found.append((number_of(name, machine), code))
    return found


def assemble(rules_: Sequence[Rule], machine: str = kernel.MACHINE) -> bytes:
    """The filter as the kernel takes it. Raises KeyError for another machine."""
    code: List[Code] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, ARCHITECTURES[machine]),
        refuse(errno.ENOSYS),
        (LOAD, 0, 0, NUMBER),
    ]
    if machine == "x86_64":
        code += [(AT_LEAST, 0, 1, X32_BIT), refuse(errno.ENOSYS)]
    for number, lines in rules_:
        allow: Code = (RETURN, 0, 0, ALLOW)
        body = [*lines, allow]
        code += [(EQUAL, 0, len(body), number), *body]
    code.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in code)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install(level: str, truncation: bool = True) -> None:
    """Filter the calls of this process and all it starts; needs no_new_privs.

    `truncation`: whether Landlock governs it, or there is a view that is read-only.
    Raises OSError, also on a machine without a table.
    """
    load(program(level))
    if not truncation:
        load(assemble(no_truncation(kernel.MACHINE)))
    own = unkillable(os.getpid(), os.getpgrp(), kernel.MACHINE)
    load(assemble(own))


_programs: Dict[str, bytes] = {}


def program(level: str) -> bytes:
    """The filter of this machine, assembled once: forks of a parent find it there.

    Raises OSError on a machine without a table.
    """
    if kernel.MACHINE not in ARCHITECTURES:
        raise OSError(errno.ENOSYS, "no table of system calls for " + kernel.MACHINE)
    if level not in _programs:
        _programs[level] = assemble(rules(kernel.MACHINE, level))
    return _programs[level]


def load(data: bytes) -> None:
    whole = _Program(len(data) // 8, data)
    result = kernel.libc.prctl(
        PR_SET_SECCOMP, ctypes.c_ulong(MODE_FILTER), ctypes.byref(whole), 0, 0
    )
    kernel.check(result, "seccomp")


def failures() -> List[str]:
    """What this layer does not deny here."""
    libc, wrong = kernel.libc, []
    if not kernel.refused(lambda: libc.unshare(CLONE_NEWUSER), errno.EPERM):
        wrong.append("namespaces can be made")
    if not kernel.refused(lambda: libc.ptrace(PTRACE_TRACEME, 0, 0, 0), errno.EPERM):
        wrong.append("processes can be traced")
    if not kernel.refused(lambda: libc.socket(AF_VSOCK, STREAM, 0), errno.EACCES):
        wrong.append("an AF_VSOCK socket can be made")
    return wrong
