# timeout_s = 6
"""An exception whose text is never ready."""

import time


class Evil(Exception):
    def __str__(self):
        time.sleep(120)
        return "late"


def trigger():
    raise Evil
