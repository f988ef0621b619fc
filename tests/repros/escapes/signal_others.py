"""Looks for processes that are not its own and that it may signal."""

import os


def trigger():
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in (1, os.getpid(), os.getppid()):
            continue
        try:
            os.kill(int(name), 0)
        except OSError:
            continue
        found.append(name)
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
