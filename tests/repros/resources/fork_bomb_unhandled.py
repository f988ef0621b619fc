# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Forks, at most 400 times, and falls over the limit."""

import os
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    for _ in range(400):
        if not os.fork():
            time.sleep(60)
            os._exit(0)
    return {"reached": 1}
