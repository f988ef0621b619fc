# timeout_s = 60
"""Forks workers that need a function of this file."""

import multiprocessing


def square(number):
    return number * number


def trigger():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return {"reached": int(sum(pool.map(square, range(10))) != 285)}
