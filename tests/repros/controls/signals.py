"""Uses an alarm, a timer and a wait."""

import os
import signal
import time


def trigger():
    heard = []
    signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    time.sleep(0.2)
    signal.signal(signal.SIGTERM, lambda *_: heard.append(2))
    os.kill(os.getpid(), signal.SIGTERM)
    return {"reached": int(heard != [1, 2])}
