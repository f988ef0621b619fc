# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Writes a report without the nonce to every descriptor, then reports."""

import json
import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


LINE = {"n": "0" * 32, "t": "result", "check": "trigger", "observations": {"reached": 0}}


def trigger():
    for fd in range(3, 1024):
        try:
            os.write(fd, json.dumps(LINE).encode() + b"\n")
        except OSError:
            continue
    return {"reached": 0}
