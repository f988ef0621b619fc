# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 6
# memory_mib = 1024
# ///
"""A table whose items never end."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


class Endless(dict):
    def items(self):
        while True:
            yield "reached", 0


def trigger():
    return Endless()
