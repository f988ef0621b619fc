# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""The greatest and the least number there is."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    return {"reached": 0, "great": 1.7976931348623157e308, "least": 5e-324}
