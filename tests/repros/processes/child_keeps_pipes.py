# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""A child holds every pipe open and the check is done."""

import os
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    if not os.fork():
        os.setsid()
        time.sleep(120)
        os._exit(0)
    return {"reached": 0}
