"""Reports that all is well, with an end, and ends with status 3."""

import os
import sys


def trigger():
    send = stolen_sender()
    send(RESULT)
    send(END)
    os._exit(3)
