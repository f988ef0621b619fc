# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 6
# memory_mib = 1024
# ///
"""Waits in the kernel for a child that never gets to be a program."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    os.mkfifo("never")
    action = (os.POSIX_SPAWN_OPEN, 1, "never", os.O_WRONLY, 0)
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[action])
    return {"reached": 1}
