# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 512
# ///
"""A table whose items are always new ones."""

import itertools


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


class Endless(dict):
    def items(self):
        return (("x%d" % number, str(number) * 1000) for number in itertools.count())


def trigger():
    return Endless()
