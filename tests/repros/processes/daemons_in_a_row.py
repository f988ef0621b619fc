# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Each generation starts the next and ends: nobody is there for long."""

import os
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    if not os.fork():
        os.setsid()
        until = time.monotonic() + 20
        while time.monotonic() < until:
            if os.fork():
                os._exit(0)
            time.sleep(0.01)
        os._exit(0)
    return {"reached": 0}
