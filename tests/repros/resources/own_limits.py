# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Leaves itself no file, no descriptor and no stack, and reports."""

import resource


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    for which in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC):
        resource.setrlimit(which, (0, 0))
    return {"reached": 0}
