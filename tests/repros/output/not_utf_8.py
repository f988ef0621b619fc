# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Bytes that are no text, in pieces that end within a character."""

import os
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    for piece in (b"\xff\xfe\x80", "\u4e2d".encode()[:2], b"", "\u4e2d".encode()[2:], b"\n"):
        os.write(1, piece)
        os.write(2, piece[:1])
        time.sleep(0.01)
    os.write(1, b"\xf0\x9f\x98")
    return {"reached": 0}
