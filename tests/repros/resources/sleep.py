# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 6
# memory_mib = 1024
# ///
"""Sleeps for two minutes."""

import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    time.sleep(120)
    return {"reached": 1}
