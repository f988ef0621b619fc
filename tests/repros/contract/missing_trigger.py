# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Keeps the contract but for one thing."""

def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger_later():
    return {"reached": 0}
