"""A character of 100,000 marks, and tabs without number."""

import os


def trigger():
    os.write(1, ("a" + "\u0301" * 50000).encode() + b"\n" + b"\t" * 50000 + b"\n")
    return {"reached": 0}
