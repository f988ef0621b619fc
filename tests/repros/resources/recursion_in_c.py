# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 2048
# ///
"""Recurses through C until the stack ends."""

import resource
import sys


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def descend(_):
    return list(map(descend, [0]))


def trigger():
    sys.setrecursionlimit(10**9)
    resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, 8 << 20))
    return {"reached": len(descend(0))}
