# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""An integer of 20,000 digits."""

import sys


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    return {"reached": 10**20000}
