"""Reports, and has hooks that would end it otherwise."""

import atexit
import os
import sys
import threading
import time


def trigger():
    atexit.register(os._exit, 7)
    threading.Thread(target=time.sleep, args=(60,)).start()
    sys.excepthook = lambda *_: os._exit(8)
    return {"reached": 0}
