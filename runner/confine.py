"""Set the limits of this process, then become a command. Runs as a script.

Usage: confine.py FILE_MIB COMMAND [ARGUMENT ...]
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

MIB = 1024 * 1024
OPEN_FILES = 4096
PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38


def lower(which: int, value: int) -> None:
    """Lower a limit for good; one that is lower already stays."""
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def main() -> None:
    file_mib, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_FSIZE, file_mib * MIB)
    lower(resource.RLIMIT_NOFILE, OPEN_FILES)
    os.execv(command[0], command)  # noqa: S606  # the whole purpose


if __name__ == "__main__":
    main()
