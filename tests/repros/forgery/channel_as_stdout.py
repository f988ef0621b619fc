# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Lays the channel over its standard output, and talks."""

import os
import stat


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    for fd in range(3, 1024):
        try:
            if stat.S_ISFIFO(os.fstat(fd).st_mode) or stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.dup2(fd, 1)
        except OSError:
            continue
    print("hello channel", flush=True)
    return {"reached": 0}
