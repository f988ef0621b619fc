"""Kills whatever it may: everything in its namespace, or of its own user."""

import os
import signal


def trigger():
    if not TARGETS:
        return {"reached": 0}
    alone = os.readlink("/proc/self/ns/pid") != TARGETS["pid_namespace"]
    own_user = os.getuid() not in (0, TARGETS["uid"])
    if alone or own_user:
        try:
            os.kill(-1, signal.SIGKILL)
        except OSError as error:
            print(error)
        return {"reached": 0}
    os.kill(-1, 0)
    return {"reached": 1}
