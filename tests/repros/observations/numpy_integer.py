"""A number of NumPy's where one of Python's belongs."""

import numpy


def trigger():
    return {"reached": numpy.int64(0)}
