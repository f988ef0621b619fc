"""A child that knows the nonce reports once its parent has."""

import os
import sys
import time


def trigger():
    send, parent = stolen_sender(), os.getpid()
    if not os.fork():
        until = time.monotonic() + 5
        while os.getppid() == parent and time.monotonic() < until:
            time.sleep(0.001)
        send(dict(RESULT, observations={"reached": 1}))
        os._exit(0)
    return {"reached": 0}
