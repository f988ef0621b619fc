# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Leaves children that are stopped, so that they see no signal but one."""

import os
import signal
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    for _ in range(3):
        pid = os.fork()
        if not pid:
            os.setsid()
            time.sleep(120)
            os._exit(0)
        os.kill(pid, signal.SIGSTOP)
    return {"reached": 0}
