# timeout_s = 6
"""Waits in the kernel for a child that never gets to be a program."""

import os


def trigger():
    os.mkfifo("never")
    action = (os.POSIX_SPAWN_OPEN, 1, "never", os.O_WRONLY, 0)
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[action])
    return {"reached": 1}
