# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Says hello again, as another build."""

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



IDENTITY = {"slug": "9.9.9-cpu", "raw": "9.9.9", "git": "0" * 40}


def trigger():
    send = stolen_sender()
    send({"t": "hello", "identity": IDENTITY, "devices": [], "facts": {}})
    send(RESULT)
    send(END)
    os._exit(0)
