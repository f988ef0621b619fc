# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Reads its own source and the line that it is at."""

import inspect
import linecache
import sys


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def helper(x):
    return x + 1  # the answer


def trigger():
    wrong = "the answer" not in inspect.getsource(helper)
    wrong += "def helper" not in linecache.getline(__file__, helper.__code__.co_firstlineno)
    with open(__file__, "rb") as file:
        wrong += b"the answer" not in file.read()
    wrong += sys.argv != [__file__]
    return {"reached": int(wrong), "ran": repr(sys.argv)}
