"""Sets the clock of the machine, to what it shows."""

import time


def trigger():
    now = time.clock_gettime(time.CLOCK_REALTIME)
    try:
        time.clock_settime(time.CLOCK_REALTIME, now)
    except OSError:
        return {"reached": 0}
    return {"reached": 1}
