# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""An object that writes to every descriptor when it is deleted."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


class Late(dict):
    def __del__(self):
        for fd in range(3, 1024):
            try:
                os.write(fd, b"too late\n")
            except OSError:
                continue


def trigger():
    return Late(reached=0)
