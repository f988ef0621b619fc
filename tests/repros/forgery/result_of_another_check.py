"""Reports in the name of another check."""

import os
import sys


def trigger():
    send = stolen_sender()
    send(dict(RESULT, check="control"))
    send(END)
    os._exit(0)
