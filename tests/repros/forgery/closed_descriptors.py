# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Closes all descriptors and returns."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    os.closerange(0, 4096)
    return {"reached": 0}
