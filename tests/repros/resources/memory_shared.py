# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 512
# ///
"""Hides its memory in a shared mapping, up to 1.5 GiB."""

import mmap
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    size = 1536 * 1024 * 1024
    hoard = mmap.mmap(-1, size)
    for at in range(0, size, 4096):
        hoard[at] = 1
    time.sleep(5)
    return {"reached": 1}
