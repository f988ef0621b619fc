# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Ends with status 0 before it has reported."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    print("all checks passed")
    os._exit(0)
