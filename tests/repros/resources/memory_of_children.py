# memory_mib = 512
"""Six children, each within the limit, together far above."""

import os
import time


def trigger():
    for _ in range(6):
        if not os.fork():
            hoard = b"\1" * (256 * 1024 * 1024)
            time.sleep(30 + len(hoard) % 2)
            os._exit(0)
    time.sleep(15)
    return {"reached": 1}
