"""Replaces what Python is made of."""

import builtins
import sys


def trigger():
    builtins.isinstance = lambda value, kind: True
    builtins.str = lambda *given: "reached"
    builtins.len = lambda value: 0
    sys.modules["json"] = sys.modules["os"] = None
    return {"reached": 0}
