# timeout_s = 15
"""Nothing but ends of lines: the dearest byte for who reads lines."""

import os


def trigger():
    for _ in range(1024):
        os.write(1, b"\n" * 65536)
    return {"reached": 1}
