"""Complains for ever, up to 64 MiB."""

import os


def trigger():
    block = b"0123456789abcde\n" * 4096
    for _ in range(1024):
        os.write(2, block)
    return {"reached": 1}
