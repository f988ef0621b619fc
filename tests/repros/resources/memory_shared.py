# memory_mib = 512
"""Hides its memory in a shared mapping, up to 1.5 GiB."""

import mmap
import time


def trigger():
    size = 1536 * 1024 * 1024
    hoard = mmap.mmap(-1, size)
    for at in range(0, size, 4096):
        hoard[at] = 1
    time.sleep(5)
    return {"reached": 1}
