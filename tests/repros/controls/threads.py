# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Shares work between threads."""

import concurrent.futures


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        total = sum(pool.map(lambda n: n * n, range(1000)))
    return {"reached": int(total != sum(n * n for n in range(1000)))}
