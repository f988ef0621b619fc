# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Passes arrays to and fro."""

import numpy
import torch


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    x = torch.from_numpy(numpy.arange(10, dtype=numpy.float32))
    back = (x * 2).numpy()
    inverse = numpy.linalg.inv(numpy.eye(64) * 2)
    return {"reached": int(back.sum() != 90) + int(inverse[0, 0] != 0.5)}
