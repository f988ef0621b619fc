"""Ends by a signal that has no name."""

import os


def trigger():
    os.kill(os.getpid(), 40)
