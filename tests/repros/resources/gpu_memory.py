# device = "cuda"
"""Takes all memory of the GPU and more."""

import torch


def trigger():
    hoard = []
    while True:
        hoard.append(torch.ones(256, 1024, 1024, device="cuda"))
