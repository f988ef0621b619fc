# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 6
# memory_mib = 1024
# ///
"""Never comes to the point."""

import time


def control():
    time.sleep(120)
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    return {"reached": 0}
