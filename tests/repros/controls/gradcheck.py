"""Checks a gradient against differences, in float64."""

import torch


def trigger():
    x = torch.linspace(0.1, 1, 6, dtype=torch.float64, requires_grad=True)
    return {"reached": int(not torch.autograd.gradcheck(lambda x: (x * x).sin(), (x,)))}
