"""Its child still holds every descriptor when it dies."""

import os
import signal
import time


def trigger():
    if not os.fork():
        time.sleep(60)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSEGV)
