"""Kills itself with the signal that looks like a lack of memory."""

import os
import signal


def trigger():
    os.kill(os.getpid(), signal.SIGKILL)
