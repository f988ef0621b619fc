"""Observes a verdict, an outcome and a build."""


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
