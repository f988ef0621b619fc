"""Makes itself the parent of its orphans, hides their deaths and ends."""

import ctypes
import os
import time


def trigger():
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG: none
    for _ in range(4):
        if not os.fork():
            if not os.fork():
                ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
                time.sleep(120)
            os._exit(0)
    return {"reached": 0}
