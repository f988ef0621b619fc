"""A list nested 480 deep, which its own interpreter still writes."""

import sys


def trigger():
    value = []
    for _ in range(480):
        value = [value]
    sys.setrecursionlimit(5000)
    return {"reached": 0, "deep": value}
