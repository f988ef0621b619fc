"""A daemon by the book: new session, no parent, no environment, no pipes."""

import os
import sys


CODE = "import time; time.sleep(120)"


def trigger():
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.closerange(0, 4096)
            os.execve(sys.executable, ["kworker/0:1", "-c", CODE], {})
        os._exit(0)
    os.wait()
    return {"reached": 0}
