# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Would see no bug if there were one."""

def control():
    return {"reached": 0}


def detector():
    return {"reached": 0}


def trigger():
    return {"reached": 0}
