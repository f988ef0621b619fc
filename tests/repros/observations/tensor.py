"""A tensor where a number belongs."""

import torch


def trigger():
    return {"reached": torch.tensor(0)}
