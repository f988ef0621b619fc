# timeout_s = 6
"""Replaces its output by one that is never done."""

import sys
import time


class Slow:
    def write(self, text):
        return len(text)

    def flush(self):
        time.sleep(120)


def trigger():
    sys.stdout = Slow()
    return {"reached": 0}
