# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Children flood both streams while the check has long reported."""

import os
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    for stream in (1, 2):
        if not os.fork():
            for _ in range(64):
                os.write(stream, b"still here\n" * 1000)
            time.sleep(60)
            os._exit(0)
    return {"reached": 0}
