# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""A list nested 480 deep, which its own interpreter still writes."""

import sys


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    value = []
    for _ in range(480):
        value = [value]
    sys.setrecursionlimit(5000)
    return {"reached": 0, "deep": value}
