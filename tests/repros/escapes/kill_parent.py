"""Stops and kills its parent, unless that is the one that asked for this run."""

import os
import signal
import time


def is_spared(pid):
    """Whether this is the process that asked, or one above it; numbers repeat."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            started = file.read().rpartition(") ")[2].split()[19]
    except OSError:
        return True
    return not TARGETS or [pid, started] in TARGETS["spared"]


def trigger():
    parent = os.getppid()
    if is_spared(parent):
        os.kill(parent, 0)  # Raises where it may not.
        return {"reached": 1, "ran": "may signal the caller"}
    said = []
    for number in (signal.SIGSTOP, signal.SIGKILL):
        try:
            os.kill(parent, number)
        except OSError as error:
            said.append(str(error))
            continue
        time.sleep(0.2)
        with open("/proc/%d/stat" % parent) as file:
            state = file.read().rpartition(") ")[2][0]
        if state in "TtZX" or os.getppid() != parent:
            return {"reached": 1, "ran": "signal %d, state %s" % (number, state)}
    return {"reached": 0, "ran": "; ".join(said)}
