# timeout_s = 6
"""Never comes to the point."""

import time


def control():
    time.sleep(120)
    return {"reached": 0}
