"""Runs backward through a small network."""

import math
import torch


def trigger():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
    net(torch.randn(4, 8)).sum().backward()
    grads = [float(p.grad.abs().sum()) for p in net.parameters()]
    return {"reached": int(not all(map(math.isfinite, grads))), "grad": grads}
