"""Bytes that are no text, in pieces that end within a character."""

import os
import time


def trigger():
    for piece in (b"\xff\xfe\x80", "\u4e2d".encode()[:2], b"", "\u4e2d".encode()[2:], b"\n"):
        os.write(1, piece)
        os.write(2, piece[:1])
        time.sleep(0.01)
    os.write(1, b"\xf0\x9f\x98")
    return {"reached": 0}
