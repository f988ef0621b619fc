"""Works in float16 and bfloat16."""

import torch


def trigger():
    found = 0
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.full((64,), 3.0, dtype=dtype)
        found += int(((x * x + x).float() != 12).sum())
    found += int(torch.isfinite(torch.tensor([60000.0], dtype=torch.float16) * 2).any())
    return {"reached": found}
