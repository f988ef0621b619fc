"""Starts short programs one after the other, and awaits none."""

import os


def trigger():
    started = 0
    for _ in range(300):
        try:
            os.posix_spawn("/bin/true", ["true"], {})
        except OSError as error:
            print("after", started, error)
            break
        started += 1
    return {"reached": 0, "started": started}
