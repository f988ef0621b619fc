# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""All but what the predicate reads."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    return {"arrived": 0}
