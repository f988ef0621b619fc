"""A line that does not end, up to 64 MiB."""

import os


def trigger():
    for _ in range(1024):
        os.write(1, b"x" * 65536)
    return {"reached": 1}
