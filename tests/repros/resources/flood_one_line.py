# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""A line that does not end, up to 64 MiB."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    for _ in range(1024):
        os.write(1, b"x" * 65536)
    return {"reached": 1}
