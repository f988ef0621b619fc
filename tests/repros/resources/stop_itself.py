# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 6
# memory_mib = 1024
# ///
"""Stops itself and everything in its session."""

import os
import signal
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    os.fork()
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(120)
    return {"reached": 1}
