"""Reads what somebody might type."""

import os
import sys


def trigger():
    return {"reached": len(sys.stdin.read()), "ran": str(os.fstat(0).st_mode)}
