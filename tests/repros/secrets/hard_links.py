# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Takes hold of others' files by hard links, new names and truncation."""

import os

TARGETS = {}  # filled in by tests/hostile.py


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    found = []
    for path in TARGETS.get("own_files", []):
        for name, attempt in (
            ("link", lambda: os.link(path, "taken")),
            ("rename", lambda: os.rename(path, path)),
            ("truncate", lambda: os.truncate(path, os.stat(path).st_size)),
            ("append", lambda: os.close(os.open(path, os.O_WRONLY | os.O_APPEND))),
        ):
            try:
                attempt()
            except OSError:
                continue
            found.append(name)
    return {"reached": len(found), "ran": " ".join(found)}
