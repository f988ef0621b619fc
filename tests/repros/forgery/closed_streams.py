"""Closes and replaces its streams, and reports."""

import sys


class Broken:
    def write(self, text):
        raise OSError("closed")

    flush = close = write


def trigger():
    sys.stdout.close()
    sys.stdout = sys.stderr = Broken()
    return {"reached": 0}
