# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Leaves folders nested 3,000 deep, for whoever has to remove them."""

import os
import tempfile


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    os.chdir(tempfile.mkdtemp())
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")
    return {"reached": 0}
