# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Forks until it may not, at most 400 times."""

import os
import signal
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    children = []
    try:
        while len(children) < 400:
            pid = os.fork()
            if not pid:
                time.sleep(60)
                os._exit(0)
            children.append(pid)
    except OSError as error:
        print("after", len(children), error)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return {"reached": int(len(children) == 400), "forked": len(children)}
