# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# trials = 2
# ///
"""Draws by chance, of Python and of torch: each trial draws anew."""

import hashlib
import os
import random
import torch


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    return {
        "reached": 0,
        "torch": float(torch.rand(1)),
        "python": random.random(),
        "digest": hashlib.sha256(os.urandom(16)).hexdigest(),
        "threads": torch.get_num_threads(),
        "workers": torch.get_num_interop_threads(),
        "type": str(torch.get_default_dtype()),
    }
