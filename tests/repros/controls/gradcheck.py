# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Checks a gradient against differences, in float64."""

import torch


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    x = torch.linspace(0.1, 1, 6, dtype=torch.float64, requires_grad=True)
    return {"reached": int(not torch.autograd.gradcheck(lambda x: (x * x).sin(), (x,)))}
