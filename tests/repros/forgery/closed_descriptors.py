"""Closes all descriptors and returns."""

import os


def trigger():
    os.closerange(0, 4096)
    return {"reached": 0}
