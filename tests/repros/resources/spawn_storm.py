# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Starts short programs one after the other, and awaits none."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    started = 0
    for _ in range(300):
        try:
            os.posix_spawn("/bin/true", ["true"], {})
        except OSError as error:
            print("after", started, error)
            break
        started += 1
    return {"reached": 0, "started": started}
