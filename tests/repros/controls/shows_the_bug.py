# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Shows the bug, so that the tests see that it can be shown."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    print("reached")
    return {"reached": 3, "loss": [float("nan"), float("inf")]}
