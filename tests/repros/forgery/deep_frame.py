"""Reports a list nested as deep as a reader still takes."""

import os
import sys


def trigger():
    sys.setrecursionlimit(100000)
    value = []
    for _ in range(700):
        value = [value]
    send = stolen_sender()
    send(dict(RESULT, observations={"reached": 0, "deep": value}))
    send(END)
    os._exit(0)
