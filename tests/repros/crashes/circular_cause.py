# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Exceptions that are each other's cause."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    first, second = ValueError("first"), KeyError("second")
    first.__cause__, second.__cause__ = second, first
    first.__context__, second.__context__ = second, first
    raise first
