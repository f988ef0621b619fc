# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Lays its standard output over the channel."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    for fd in range(3, 1024):
        try:
            os.fstat(fd)
            os.dup2(1, fd)
        except OSError:
            continue
    return {"reached": 0}
