"""Passes arrays to and fro."""

import numpy
import torch


def trigger():
    x = torch.from_numpy(numpy.arange(10, dtype=numpy.float32))
    back = (x * 2).numpy()
    inverse = numpy.linalg.inv(numpy.eye(64) * 2)
    return {"reached": int(back.sum() != 90) + int(inverse[0, 0] != 0.5)}
