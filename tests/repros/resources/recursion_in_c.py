# memory_mib = 2048
"""Recurses through C until the stack ends."""

import resource
import sys


def descend(_):
    return list(map(descend, [0]))


def trigger():
    sys.setrecursionlimit(10**9)
    resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, 8 << 20))
    return {"reached": len(descend(0))}
