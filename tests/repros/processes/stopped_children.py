"""Leaves children that are stopped, so that they see no signal but one."""

import os
import signal
import time


def trigger():
    for _ in range(3):
        pid = os.fork()
        if not pid:
            os.setsid()
            time.sleep(120)
            os._exit(0)
        os.kill(pid, signal.SIGSTOP)
    return {"reached": 0}
