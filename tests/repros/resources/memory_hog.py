# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 512
# ///
"""Takes memory for ever, up to 3 GiB."""

import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    hoard = []
    for _ in range(48):
        hoard.append(b"\1" * (64 * 1024 * 1024))
        print(len(hoard) * 64, "MiB", flush=True)
    time.sleep(5)
    return {"reached": 1}
