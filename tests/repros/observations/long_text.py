# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""A text of more than 4 kB, in characters of three bytes."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    return {"reached": 0, "ran": "\u4e2d" * 1500}
