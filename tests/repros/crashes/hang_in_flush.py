# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 6
# memory_mib = 1024
# ///
"""Replaces its output by one that is never done."""

import sys
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


class Slow:
    def write(self, text):
        return len(text)

    def flush(self):
        time.sleep(120)


def trigger():
    sys.stdout = Slow()
    return {"reached": 0}
