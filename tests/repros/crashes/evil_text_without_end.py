# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 6
# memory_mib = 1024
# ///
"""An exception whose text is never ready."""

import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


class Evil(Exception):
    def __str__(self):
        time.sleep(120)
        return "late"


def trigger():
    raise Evil
