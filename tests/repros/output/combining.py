# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""A character of 100,000 marks, and tabs without number."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    os.write(1, ("a" + "\u0301" * 50000).encode() + b"\n" + b"\t" * 50000 + b"\n")
    return {"reached": 0}
