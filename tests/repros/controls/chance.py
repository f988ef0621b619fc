# trials = 2
"""Draws by chance, of Python and of torch: each trial draws anew."""

import hashlib
import os
import random
import torch


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
