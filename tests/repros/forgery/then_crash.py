"""Reports that all is well, with an end, and crashes."""

import os
import signal
import sys


def trigger():
    send = stolen_sender()
    send(RESULT)
    send(END)
    os.kill(os.getpid(), signal.SIGSEGV)
