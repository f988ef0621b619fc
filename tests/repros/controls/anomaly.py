"""Looks for an anomaly, whose trace it expects."""

import torch


def trigger():
    x = torch.zeros(2, requires_grad=True)
    try:
        with torch.autograd.detect_anomaly():
            (torch.sqrt(x) * 0).sum().backward()
    except RuntimeError as error:
        return {"reached": int("nan" not in str(error)), "ran": str(error)}
    return {"reached": 1}
