# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""A name whose text is an exit."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


class Name:
    def __str__(self):
        raise SystemExit(0)


def trigger():
    return {"reached": 0, Name(): 1}
