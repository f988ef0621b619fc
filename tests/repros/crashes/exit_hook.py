# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Reports, and has hooks that would end it otherwise."""

import atexit
import os
import sys
import threading
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    atexit.register(os._exit, 7)
    threading.Thread(target=time.sleep, args=(60,)).start()
    sys.excepthook = lambda *_: os._exit(8)
    return {"reached": 0}
