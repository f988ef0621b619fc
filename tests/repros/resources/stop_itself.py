# timeout_s = 6
"""Stops itself and everything in its session."""

import os
import signal
import time


def trigger():
    os.fork()
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(120)
    return {"reached": 1}
