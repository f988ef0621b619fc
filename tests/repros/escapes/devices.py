# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Opens devices that are more than a source of zeros."""

import os
import stat


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


HARMLESS = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "core", "shm")


def trigger():
    found = []
    for folder, _, names in os.walk("/dev"):
        if folder.startswith(("/dev/shm", "/dev/fd", "/dev/pts")):
            continue
        for name in names:
            path = os.path.join(folder, name)
            kind = os.lstat(path).st_mode
            if name in HARMLESS or not (stat.S_ISCHR(kind) or stat.S_ISBLK(kind)):
                continue
            if name.startswith("nvidia"):
                continue
            try:
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            except OSError:
                continue
            found.append(path)
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
