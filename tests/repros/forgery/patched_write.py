# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Replaces os.write, so that every frame goes out twice."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    real = os.write
    os.write = lambda fd, data: real(fd, data + data) // 2
    return {"reached": 0}
