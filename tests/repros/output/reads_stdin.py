# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Reads what somebody might type."""

import os
import sys


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    return {"reached": len(sys.stdin.read()), "ran": str(os.fstat(0).st_mode)}
