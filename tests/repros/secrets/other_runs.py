"""Looks into the folders of other runs."""

import os


def trigger():
    found = []
    for path in TARGETS.get("other_runs", []):
        try:
            found += os.listdir(path)
        except OSError:
            continue
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
