# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Multiplies matrices, on more than one thread where there are some."""

import torch


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    a = torch.ones(256, 256, dtype=torch.float64)
    product = torch.mm(a, a)
    return {"reached": int((product != 256).sum()), "threads": torch.get_num_threads()}
