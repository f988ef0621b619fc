# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""One file of 600 MiB, and the signal for it as a C program gets it."""

import signal


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    with open("big", "wb") as file:
        file.truncate(600 * 1024 * 1024)
    return {"reached": 1}
