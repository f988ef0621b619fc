# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Looks into the folders of other runs."""

import os

TARGETS = {}  # filled in by tests/hostile.py


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    found = []
    for path in TARGETS.get("other_runs", []):
        try:
            found += os.listdir(path)
        except OSError:
            continue
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
