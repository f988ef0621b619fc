# timeout_s = 6
"""Works for a minute on every core."""

import os
import time


def trigger():
    os.fork()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        pass
    return {"reached": 1}
