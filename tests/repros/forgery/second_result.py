"""Reports that all is well, then returns what it saw."""

import sys


def trigger():
    stolen_sender()(RESULT)
    return {"reached": 1}
