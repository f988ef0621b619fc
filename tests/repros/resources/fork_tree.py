"""Doubles its processes, up to 256, and leaves them behind."""

import os
import time


def trigger():
    first = os.getpid()
    for _ in range(8):
        try:
            os.fork()
        except OSError:
            break
    if os.getpid() != first:
        time.sleep(60)
        os._exit(0)
    return {"reached": 0}
