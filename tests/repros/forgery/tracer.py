# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Traces the harness and raises wherever it goes."""

import sys


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def tracer(frame, event, argument):
    if frame.f_code.co_name in ("send", "_end", "_wire", "encode"):
        raise RuntimeError("no further")
    return tracer


def trigger():
    frame = sys._getframe()
    while frame:
        frame.f_trace = tracer
        frame = frame.f_back
    sys.settrace(tracer)
    return {"reached": 0}
