"""Fills the channel from children that never stop."""

import fcntl
import os
import time


def writable():
    """Whatever number it has: the trusted side may hold many descriptors."""
    for fd in range(3, 1024):
        try:
            if fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR):
                yield fd
        except OSError:
            continue


def trigger():
    for fd in writable():
        if not os.fork():
            try:
                while True:
                    os.write(fd, b"\0" * 65536)
            except OSError:
                os._exit(0)
    time.sleep(30)
    return {"reached": 0}
