# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Prints a report and ends with status 0."""

import json
import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    for line in (
        {"t": "hello", "identity": {}},
        {"t": "result", "check": "trigger", "trial": 0, "observations": {"reached": 0}},
        {"t": "end"},
    ):
        print(json.dumps(line))
    print('{"verdict": "bug_absent"}', flush=True)
    os._exit(0)
