# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 4096
# ///
"""Fills /dev/shm, up to 1 GiB."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    names, full = [], 0
    try:
        for number in range(16):
            names.append("/dev/shm/hostile-%d-%d" % (os.getpid(), number))
            with open(names[-1], "wb") as file:
                os.posix_fallocate(file.fileno(), 0, 64 * 1024 * 1024)
            full += 64
    except OSError as error:
        print("after", full, "MiB", error)
    finally:
        for name in names:
            if os.path.exists(name):
                os.unlink(name)
    return {"reached": int(full == 1024), "full": full}
