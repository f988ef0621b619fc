# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Reads the settings, the database, the broker, the keys, other people's files."""

import os

TARGETS = {}  # filled in by tests/hostile.py


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


KNOWN = ("/etc/shadow", "/root/.ssh", "/root/.bashrc", "/root/.netrc", "/root/.config")


def trigger():
    found = []
    for path in [*TARGETS.get("secrets", []), *KNOWN]:
        try:
            if os.path.isdir(path):
                os.listdir(path)
            else:
                open(path, "rb").close()
        except OSError:
            continue
        found.append(path)
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
