"""Reports in the name of another trial."""

import os
import sys


def trigger():
    send = stolen_sender()
    send(dict(RESULT, trial=7))
    send(END)
    os._exit(0)
