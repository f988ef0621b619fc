# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Lets the fault handler end it with status 1 while it works."""

import faulthandler
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    faulthandler.dump_traceback_later(0.2, exit=True)
    time.sleep(60)
    return {"reached": 0}
