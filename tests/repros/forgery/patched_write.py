"""Replaces os.write, so that every frame goes out twice."""

import os


def trigger():
    real = os.write
    os.write = lambda fd, data: real(fd, data + data) // 2
    return {"reached": 0}
