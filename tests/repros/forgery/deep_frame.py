# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Reports a list nested as deep as a reader still takes."""

import os
import sys


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def stolen_sender():
    """The function by which the harness speaks, from the frame that holds it."""
    frame = sys._getframe()
    while "send" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["send"]


RESULT = {"t": "result", "check": "trigger", "trial": 0, "observations": {"reached": 0}}
END = {"t": "end"}



def trigger():
    sys.setrecursionlimit(100000)
    value = []
    for _ in range(700):
        value = [value]
    send = stolen_sender()
    send(dict(RESULT, observations={"reached": 0, "deep": value}))
    send(END)
    os._exit(0)
