"""Writes a report without the nonce to every descriptor, then reports."""

import json
import os


LINE = {"n": "0" * 32, "t": "result", "check": "trigger", "observations": {"reached": 0}}


def trigger():
    for fd in range(3, 1024):
        try:
            os.write(fd, json.dumps(LINE).encode() + b"\n")
        except OSError:
            continue
    return {"reached": 0}
