# timeout_s = 6
"""Ignores the signal of used-up processor time, in three processes."""

import os
import signal
import time


def trigger():
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    for _ in range(2):
        os.fork()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        pass
    os._exit(0)
