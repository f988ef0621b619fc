"""A thread ends the process with status 0 before it has reported."""

import os
import threading
import time


def trigger():
    threading.Thread(target=os._exit, args=(0,)).start()
    time.sleep(60)
    return {"reached": 0}
