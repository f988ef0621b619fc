"""A result whose observations are no table."""

import os
import sys


def trigger():
    send = stolen_sender()
    send(dict(RESULT, observations="reached"))
    send(END)
    os._exit(0)
