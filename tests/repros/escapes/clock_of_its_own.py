# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 6
# memory_mib = 1024
# ///
"""Sets every clock that Python reads back: its time never ends."""

import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    sleep, begin = time.sleep, time.monotonic()
    time.time = time.monotonic = time.perf_counter = lambda: begin
    sleep(120)
    return {"reached": 1}
