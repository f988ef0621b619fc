# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Makes itself the parent of its orphans, hides their deaths and ends."""

import ctypes
import os
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG: none
    for _ in range(4):
        if not os.fork():
            if not os.fork():
                ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
                time.sleep(120)
            os._exit(0)
    return {"reached": 0}
