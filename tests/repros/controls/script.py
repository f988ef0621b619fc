# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Scripts a function, for which torch reads its source."""

import torch


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    if bool(x.sum() > 0):
        return x * 2
    return x


def trigger():
    return {"reached": int(scripted(torch.ones(4)).sum() != 8)}
