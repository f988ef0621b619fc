"""Landlock: restricts this process and its children to the named files.

Follows Documentation/userspace-api/landlock.rst; each ABI adds rights, and only those
that the kernel knows are used.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat

import kernel

TYPE_CHECKING = False  # as mypy knows it; typing alone takes 10 ms to import
if TYPE_CHECKING:
    from typing import List, Sequence

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG = 1
RULE_PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
ALL_OF_ABI_1 = (1 << 13) - 1
READ = EXECUTE | READ_FILE | READ_DIR
FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
TCP_BOTH = 3
SCOPE_ABSTRACT_UNIX_SOCKET, SCOPE_SIGNAL = 1, 2


class _Ruleset(ctypes.Structure):
    _fields_ = [
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    ]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def abi() -> int:
    """The version this kernel offers. Raises OSError where there is none."""
    return int(kernel.syscall(CREATE_RULESET, 0, 0, VERSION_FLAG))


def file_rights(version: int) -> int:
    """Every right over files that a version can handle."""
    rights = ALL_OF_ABI_1
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)):
        if version >= since:
            rights |= right
    return rights


def restrict(
    read: Sequence[str],
    write: Sequence[str],
    *,
    tcp: bool,
    scoped: bool,
    version: int = 0,
) -> None:
    """Deny all files but these and those below them, irrevocably.

    `tcp`: whether TCP stays open (closing it needs ABI 4). `scoped`: no signal and no
    abstract socket beyond this process and its children (ABI 6). `version`: the ABI to
    use, at most the kernel's. Needs no_new_privs. Raises OSError.
    """
    version = min(version or abi(), abi())
    handled = file_rights(version)
    rules = _Ruleset(
        handled,
        TCP_BOTH if version >= 4 and not tcp else 0,
        SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL if version >= 6 and scoped else 0,
    )
    # An older kernel refuses a structure that is longer than it knows.
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = kernel.syscall(CREATE_RULESET, ctypes.byref(rules), size, 0)
    try:
        for paths, rights in ((read, READ), (write, handled)):
            for path in paths:
                allow(ruleset, path, rights & handled)
        kernel.syscall(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def allow(ruleset: int, path: str, rights: int) -> None:
    """Add a rule; none for a path that does not exist."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            rights &= FOR_FILES
        rule = _PathBeneath(rights, handle)
        kernel.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(handle)


def failures() -> List[str]:
    """What is not denied here: a file that all may write and no rule names."""
    if kernel.refused(lambda: os.open("/dev/full", os.O_WRONLY), errno.EACCES):
        return []
    return ["a file that no rule names can be written"]
