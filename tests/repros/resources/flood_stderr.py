# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Complains for ever, up to 64 MiB."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    block = b"0123456789abcde\n" * 4096
    for _ in range(1024):
        os.write(2, block)
    return {"reached": 1}
