# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cuda"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Takes all memory of the GPU and more."""

import torch


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    hoard = []
    while True:
        hoard.append(torch.ones(256, 1024, 1024, device="cuda"))
