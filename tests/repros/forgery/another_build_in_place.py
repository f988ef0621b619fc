# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Gives the torch it was started with another version."""

import torch


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


torch.__version__ = "9.9.9"
torch.version.git_version = "0" * 40


def trigger():
    return {"reached": 0}
