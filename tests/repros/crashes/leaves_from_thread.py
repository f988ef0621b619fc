# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""A thread ends the process with status 0 before it has reported."""

import os
import threading
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    threading.Thread(target=os._exit, args=(0,)).start()
    time.sleep(60)
    return {"reached": 0}
