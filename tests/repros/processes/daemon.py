# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""A daemon by the book: new session, no parent, no environment, no pipes."""

import os
import sys


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


CODE = "import time; time.sleep(120)"


def trigger():
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.closerange(0, 256)
            os.execve(sys.executable, ["kworker/0:1", "-c", CODE], {})
        os._exit(0)
    os.wait()
    return {"reached": 0}
