"""A list nested 100,000 deep."""

import sys


def trigger():
    sys.setrecursionlimit(10**6)
    value = []
    for _ in range(100000):
        value = [value]
    return {"reached": 0, "deep": value}
