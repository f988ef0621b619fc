# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Pickles functions and classes of this file."""

import copy
import pickle


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


class Point:
    def __init__(self, x):
        self.x = x


def helper():
    return 3


def trigger():
    point, function = pickle.loads(pickle.dumps((Point(4), helper)))
    twin = copy.deepcopy(point)
    return {"reached": int(point.x + function() + twin.x != 11)}
