# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 15
# memory_mib = 1024
# ///
"""Nothing but ends of lines: the dearest byte for who reads lines."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    for _ in range(1024):
        os.write(1, b"\n" * 65536)
    return {"reached": 1}
