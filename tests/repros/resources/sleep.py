# timeout_s = 6
"""Sleeps for two minutes."""

import time


def trigger():
    time.sleep(120)
    return {"reached": 1}
