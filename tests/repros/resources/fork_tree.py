# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Doubles its processes, up to 256, and leaves them behind."""

import os
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    first = os.getpid()
    for _ in range(8):
        try:
            os.fork()
        except OSError:
            break
    if os.getpid() != first:
        time.sleep(60)
        os._exit(0)
    return {"reached": 0}
