# memory_mib = 512
"""Hides its memory in files without a name or a mapping, up to 1 GiB."""

import os
import time


def trigger():
    held = []
    block = b"\1" * (16 * 1024 * 1024)
    for number in range(8):
        held.append(os.memfd_create("hoard%d" % number))
        for _ in range(8):
            os.write(held[-1], block)
    time.sleep(1)
    return {"reached": 1}
