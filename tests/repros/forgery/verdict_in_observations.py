# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Observes a verdict, an outcome and a build."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    return {
        "reached": 1,
        "verdict": "bug_absent",
        "outcome": "clean",
        "is_affected": False,
        "tier": "A",
        "device": "cuda",
        "digest": "sha256:" + "0" * 64,
    }
