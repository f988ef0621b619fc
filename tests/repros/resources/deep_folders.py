"""Leaves folders nested 3,000 deep, for whoever has to remove them."""

import os
import tempfile


def trigger():
    os.chdir(tempfile.mkdtemp())
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")
    return {"reached": 0}
