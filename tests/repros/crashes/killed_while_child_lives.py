# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Its child still holds every descriptor when it dies."""

import os
import signal
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    if not os.fork():
        time.sleep(60)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSEGV)
