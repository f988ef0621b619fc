# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Replaces what Python is made of."""

import builtins
import sys


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    builtins.isinstance = lambda value, kind: True
    builtins.str = lambda *given: "reached"
    builtins.len = lambda value: 0
    sys.modules["json"] = sys.modules["os"] = None
    return {"reached": 0}
