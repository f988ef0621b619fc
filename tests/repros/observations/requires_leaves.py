# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""A requirement that ends the process."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def requires():
    os._exit(0)


def trigger():
    return {"reached": 0}
