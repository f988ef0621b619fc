# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""An object that says it is a number."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


class Evil:
    __class__ = int

    def __repr__(self):
        return "0"


def trigger():
    return {"reached": Evil()}
