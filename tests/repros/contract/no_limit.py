# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 1e9
# memory_mib = 99999999
# ///
"""Keeps the contract but for one thing."""

def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    return {"reached": 0}
