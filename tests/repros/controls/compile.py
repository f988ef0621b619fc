# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 300
# memory_mib = 4096
# needs = ["compiler"]
# ///
"""Compiles a function for the CPU."""

import torch


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    double = torch.compile(lambda x: (x * 2.0).sin() + 1.0)
    x = torch.linspace(0, 1, 16)
    return {"reached": int((double(x) - ((x * 2.0).sin() + 1.0)).abs().max() > 1e-6)}
