# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Looks for processes that are not its own and that it may signal."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in (1, os.getpid(), os.getppid()):
            continue
        try:
            os.kill(int(name), 0)
        except OSError:
            continue
        found.append(name)
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
