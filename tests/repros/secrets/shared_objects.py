# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# trials = 2
# ///
"""Leaves shared memory, semaphores and queues for the next trial to find."""

import ctypes
import os

TARGETS = {}  # filled in by tests/hostile.py


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


KEY = 0x0D0E5174


def trigger():
    libc = ctypes.CDLL(None, use_errno=True)
    key = TARGETS.get("shared_key", KEY)
    reached = int(libc.shmget(key, 4096, 0) >= 0)
    libc.shmget(key, 4096, 0o1600)
    marker = "/dev/shm/hostile-%d" % key
    reached += os.path.exists(marker)
    try:
        open(marker, "w").close()
    except OSError as error:
        print(error)
    return {"reached": reached}
