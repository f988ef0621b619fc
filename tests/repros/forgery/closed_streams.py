# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Closes and replaces its streams, and reports."""

import sys


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


class Broken:
    def write(self, text):
        raise OSError("closed")

    flush = close = write


def trigger():
    sys.stdout.close()
    sys.stdout = sys.stderr = Broken()
    return {"reached": 0}
