# timeout_s = 60
# memory_mib = 2048
"""Starts workers afresh, that work with what Python has."""

import math
import multiprocessing


def trigger():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        return {"reached": int(pool.map(math.factorial, range(5)) != [1, 1, 2, 6, 24])}
