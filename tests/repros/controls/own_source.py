"""Reads its own source and the line that it is at."""

import inspect
import linecache
import sys


def helper(x):
    return x + 1  # the answer


def trigger():
    wrong = "the answer" not in inspect.getsource(helper)
    wrong += "def helper" not in linecache.getline(__file__, helper.__code__.co_firstlineno)
    with open(__file__, "rb") as file:
        wrong += b"the answer" not in file.read()
    wrong += sys.argv != [__file__]
    return {"reached": int(wrong), "ran": repr(sys.argv)}
