# timeout_s = 6
"""Hangs, and so do grandchildren that hear no signal."""

import subprocess
import sys
import time


CODE = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
time.sleep(120)
"""


def trigger():
    for session in (False, True):
        subprocess.Popen([sys.executable, "-c", CODE], start_new_session=session)
    time.sleep(120)
    return {"reached": 1}
