# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Kills itself with the signal that looks like a lack of memory."""

import os
import signal


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    os.kill(os.getpid(), signal.SIGKILL)
