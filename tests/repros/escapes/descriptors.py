"""Counts what it inherited beside its streams and one channel."""

import os


def trigger():
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            what = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue  # The listing itself.
        if int(name) > 2:
            found.append("%s %s" % (name, what))
    return {"reached": max(0, len(found) - 1), "ran": ", ".join(found)[:4000]}
