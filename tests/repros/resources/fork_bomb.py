"""Forks until it may not, at most 400 times."""

import os
import signal
import time


def trigger():
    children = []
    try:
        while len(children) < 400:
            pid = os.fork()
            if not pid:
                time.sleep(60)
                os._exit(0)
            children.append(pid)
    except OSError as error:
        print("after", len(children), error)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return {"reached": int(len(children) == 400), "forked": len(children)}
