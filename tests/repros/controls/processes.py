# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 60
# memory_mib = 1024
# ///
"""Forks workers that need a function of this file."""

import multiprocessing


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def square(number):
    return number * number


def trigger():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return {"reached": int(sum(pool.map(square, range(10))) != 285)}
