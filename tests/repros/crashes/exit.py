"""Leaves by sys.exit(0)."""

import sys


def trigger():
    sys.exit(0)
