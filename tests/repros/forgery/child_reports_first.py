"""A child that knows the nonce reports before its parent does."""

import os
import sys


def trigger():
    send = stolen_sender()
    child = os.fork()
    if not child:
        send(RESULT)
        send(END)
        os._exit(0)
    os.waitpid(child, 0)
    return {"reached": 1}
