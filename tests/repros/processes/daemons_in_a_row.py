"""Each generation starts the next and ends: nobody is there for long."""

import os
import time


def trigger():
    if not os.fork():
        os.setsid()
        until = time.monotonic() + 20
        while time.monotonic() < until:
            if os.fork():
                os._exit(0)
            time.sleep(0.01)
        os._exit(0)
    return {"reached": 0}
