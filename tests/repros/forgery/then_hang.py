# timeout_s = 6
"""Reports that all is well, with an end, and hangs."""

import sys
import time


def trigger():
    send = stolen_sender()
    send(RESULT)
    send(END)
    time.sleep(120)
