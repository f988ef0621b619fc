"""Children flood both streams while the check has long reported."""

import os
import time


def trigger():
    for stream in (1, 2):
        if not os.fork():
            for _ in range(64):
                os.write(stream, b"still here\n" * 1000)
            time.sleep(60)
            os._exit(0)
    return {"reached": 0}
