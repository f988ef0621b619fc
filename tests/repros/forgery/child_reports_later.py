# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""A child that knows the nonce reports once its parent has."""

import os
import sys
import time


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
    send, parent = stolen_sender(), os.getpid()
    if not os.fork():
        until = time.monotonic() + 5
        while os.getppid() == parent and time.monotonic() < until:
            time.sleep(0.001)
        send(dict(RESULT, observations={"reached": 1}))
        os._exit(0)
    return {"reached": 0}
