# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Replaces what the harness is made of, so that its own report is of another check."""

import json


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    real = json.dumps

    def lie(value, **options):
        if isinstance(value, dict) and value.get("t") == "result":
            value = dict(value, check="control", observations={"reached": 0})
        return real(value, **options)

    json.dumps = lie
    return {"reached": 1}
