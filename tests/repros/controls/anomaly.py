# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Looks for an anomaly, whose trace it expects."""

import torch


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    x = torch.zeros(2, requires_grad=True)
    try:
        with torch.autograd.detect_anomaly():
            (torch.sqrt(x) * 0).sum().backward()
    except RuntimeError as error:
        return {"reached": int("nan" not in str(error)), "ran": str(error)}
    return {"reached": 1}
