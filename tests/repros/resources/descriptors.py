# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Opens files until it may not, at most 20,000, and still reports."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    held = []
    try:
        for _ in range(20000):
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        print("after", len(held), error)
    return {"reached": int(len(held) == 20000), "held": len(held)}
