# timeout_s = 6
"""Sleeps with every signal blocked and ignored."""

import signal
import time


def trigger():
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            continue
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))
    time.sleep(120)
    return {"reached": 1}
