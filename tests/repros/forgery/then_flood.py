"""Reports that all is well, with an end, and writes for ever."""

import os
import sys


def trigger():
    send = stolen_sender()
    send(RESULT)
    send(END)
    for _ in range(1024):
        os.write(1, b"0123456789abcde\n" * 4096)
    os._exit(0)
