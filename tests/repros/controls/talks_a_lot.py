"""Prints a megabyte, in the words of many tongues."""

import sys


def trigger():
    for number in range(20000):
        print("line", number, "\u4e2d\u6587 \u00e9\u0444 \u2714 ok " + "." * 20)
    print("to the other stream", file=sys.stderr)
    return {"reached": 0}
