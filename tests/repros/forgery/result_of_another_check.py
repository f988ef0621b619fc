# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Reports in the name of another check."""

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
    send = stolen_sender()
    send(dict(RESULT, check="control"))
    send(END)
    os._exit(0)
