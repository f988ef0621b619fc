"""Keeps memory that nobody can read, count or save."""

import ctypes
import os


MEMFD_SECRET = 447


def trigger():
    fd = ctypes.CDLL(None, use_errno=True).syscall(MEMFD_SECRET, 0)
    if fd < 0:
        return {"reached": 0, "ran": os.strerror(ctypes.get_errno())}
    os.ftruncate(fd, 4096)
    return {"reached": 1, "ran": "secret memory"}
