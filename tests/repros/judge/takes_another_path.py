# expect = {ran = "cudnn"}
"""Runs something else than it is about."""


def trigger():
    return {"reached": 1, "ran": "math"}
