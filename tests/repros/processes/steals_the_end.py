"""Its child waits for its end and becomes busy in its place."""

import os
import time


def trigger():
    parent = os.getpid()
    if not os.fork():
        until = time.monotonic() + 60
        while os.getppid() == parent and time.monotonic() < until:
            time.sleep(0.001)
        while time.monotonic() < until:
            os.write(1, b"reborn\n")
            time.sleep(0.01)
        os._exit(0)
    return {"reached": 0}
