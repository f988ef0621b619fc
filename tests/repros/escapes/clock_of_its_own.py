# timeout_s = 6
"""Sets every clock that Python reads back: its time never ends."""

import time


def trigger():
    sleep, begin = time.sleep, time.monotonic()
    time.time = time.monotonic = time.perf_counter = lambda: begin
    sleep(120)
    return {"reached": 1}
