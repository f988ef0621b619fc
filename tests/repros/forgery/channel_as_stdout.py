"""Lays the channel over its standard output, and talks."""

import os
import stat


def trigger():
    for fd in range(3, 1024):
        try:
            if stat.S_ISFIFO(os.fstat(fd).st_mode) or stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.dup2(fd, 1)
        except OSError:
            continue
    print("hello channel", flush=True)
    return {"reached": 0}
