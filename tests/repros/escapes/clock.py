# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Sets the clock of the machine, to what it shows."""

import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    now = time.clock_gettime(time.CLOCK_REALTIME)
    try:
        time.clock_settime(time.CLOCK_REALTIME, now)
    except OSError:
        return {"reached": 0}
    return {"reached": 1}
