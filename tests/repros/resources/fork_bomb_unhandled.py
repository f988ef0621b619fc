"""Forks, at most 400 times, and falls over the limit."""

import os
import time


def trigger():
    for _ in range(400):
        if not os.fork():
            time.sleep(60)
            os._exit(0)
    return {"reached": 1}
