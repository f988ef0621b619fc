# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Prints a megabyte, in the words of many tongues."""

import sys


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    for number in range(20000):
        print("line", number, "\u4e2d\u6587 \u00e9\u0444 \u2714 ok " + "." * 20)
    print("to the other stream", file=sys.stderr)
    return {"reached": 0}
