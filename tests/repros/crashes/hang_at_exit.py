# timeout_s = 6
"""Reports, and does not end."""

import os
import time


def trigger():
    os._exit = lambda status: time.sleep(120)
    return {"reached": 0}
