"""Multiplies matrices, on more than one thread where there are some."""

import torch


def trigger():
    a = torch.ones(256, 256, dtype=torch.float64)
    product = torch.mm(a, a)
    return {"reached": int((product != 256).sum()), "threads": torch.get_num_threads()}
