# timeout_s = 300
# memory_mib = 4096
# needs = ["compiler"]
"""Compiles a function for the CPU."""

import torch


def trigger():
    double = torch.compile(lambda x: (x * 2.0).sin() + 1.0)
    x = torch.linspace(0, 1, 16)
    return {"reached": int((double(x) - ((x * 2.0).sin() + 1.0)).abs().max() > 1e-6)}
