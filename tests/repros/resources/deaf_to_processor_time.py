# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 6
# memory_mib = 1024
# ///
"""Ignores the signal of used-up processor time, in three processes."""

import os
import signal
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    for _ in range(2):
        os.fork()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        pass
    os._exit(0)
