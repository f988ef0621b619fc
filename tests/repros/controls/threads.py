"""Shares work between threads."""

import concurrent.futures


def trigger():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        total = sum(pool.map(lambda n: n * n, range(1000)))
    return {"reached": int(total != sum(n * n for n in range(1000)))}
