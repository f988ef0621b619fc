"""Lays its standard output over the channel."""

import os


def trigger():
    for fd in range(3, 1024):
        try:
            os.fstat(fd)
            os.dup2(1, fd)
        except OSError:
            continue
    return {"reached": 0}
