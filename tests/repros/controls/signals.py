# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Uses an alarm, a timer and a wait."""

import os
import signal
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    heard = []
    signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    time.sleep(0.2)
    signal.signal(signal.SIGTERM, lambda *_: heard.append(2))
    os.kill(os.getpid(), signal.SIGTERM)
    return {"reached": int(heard != [1, 2])}
