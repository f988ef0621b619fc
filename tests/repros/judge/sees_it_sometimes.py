# trials = 4
"""Shows the bug in some trials only."""

import os


def trigger():
    return {"reached": os.getpid() % 2}
