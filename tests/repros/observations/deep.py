# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""A list nested 100,000 deep."""

import sys


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    sys.setrecursionlimit(10**6)
    value = []
    for _ in range(100000):
        value = [value]
    return {"reached": 0, "deep": value}
