"""Reports 300 KiB in one frame."""

import sys


def trigger():
    stolen_sender()(dict(RESULT, observations={"reached": 0, "ran": "x" * 300000}))
    return {"reached": 0}
