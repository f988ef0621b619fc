"""Scripts a function, for which torch reads its source."""

import torch


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    if bool(x.sum() > 0):
        return x * 2
    return x


def trigger():
    return {"reached": int(scripted(torch.ones(4)).sum() != 8)}
