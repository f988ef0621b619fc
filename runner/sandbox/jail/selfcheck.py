"""Tests the layers of the sandbox from inside. Runs as a check.

    selfcheck.py LAYER ...

Prints its findings as JSON; exit status 1, with a line on stderr for each protection
that fails.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import sys
from typing import Callable, Dict, List

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER = 0x10000000
PTRACE_TRACEME = 0


def refused(action: Callable[[], object], *errors: int) -> bool:
    """Whether the kernel denies the action with one of these errors."""
    try:
        result = action()
    except OSError as error:
        return error.errno in errors
    return result == -1 and ctypes.get_errno() in errors


def namespaces() -> List[str]:
    """Few processes, one network interface, no folder of a user."""
    wrong = []
    if len([name for name in os.listdir("/proc") if name.isdigit()]) > 2:
        wrong.append("foreign processes can be seen")
    if [name for _, name in socket.if_nameindex()] != ["lo"]:
        wrong.append("the network is not its own")
    if not refused(lambda: os.mkdir("/doesitnan"), errno.EROFS, errno.EACCES):
        wrong.append("the root can be written")
    if os.path.exists("/etc/shadow") or os.path.exists("/var/log"):
        wrong.append("files of the machine can be seen")
    return wrong


def landlock() -> List[str]:
    """A file that everybody may write, but that no rule names."""
    if refused(lambda: os.open("/dev/full", os.O_WRONLY), errno.EACCES):
        return []
    return ["a file that no rule names can be written"]


def seccomp() -> List[str]:
    wrong = []
    if not refused(lambda: libc.unshare(CLONE_NEWUSER), errno.EPERM):
        wrong.append("namespaces can be made")
    if not refused(lambda: libc.ptrace(PTRACE_TRACEME, 0, 0, 0), errno.EPERM):
        wrong.append("processes can be traced")
    if not refused(lambda: socket.socket(40), errno.EACCES):
        wrong.append("an AF_VSOCK socket can be made")
    return wrong


TRIALS: Dict[str, Callable[[], List[str]]] = {
    "namespaces": namespaces,
    "landlock": landlock,
    "seccomp": seccomp,
}


def main() -> int:
    wrong = [text for name in sys.argv[1:] for text in TRIALS[name]()]
    for text in wrong:
        sys.stderr.write("selfcheck: %s\n" % text)
    abi = libc.syscall(ctypes.c_long(444), None, ctypes.c_size_t(0), ctypes.c_uint(1))
    print(json.dumps({"landlock": max(int(abi), 0), "uid": os.getuid()}))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
