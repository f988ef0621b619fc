# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""An exception whose text ends the process."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


class Evil(Exception):
    def __str__(self):
        raise SystemExit(0)

    __repr__ = __str__


def trigger():
    raise Evil
