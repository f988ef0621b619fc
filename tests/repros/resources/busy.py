# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 6
# memory_mib = 1024
# ///
"""Works for a minute on every core."""

import os
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    os.fork()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        pass
    return {"reached": 1}
