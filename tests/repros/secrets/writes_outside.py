"""Writes wherever it is let: into the project, the build, the system."""

import os
import sys


def trigger():
    found = []
    places = [*TARGETS.get("unwritable", []), "/etc", "/usr/local/lib", "/root", "/"]
    places += [sys.prefix, os.path.dirname(os.__file__)]
    places.append(os.path.dirname(os.path.abspath(sys.modules["__main__"].__file__)))
    for place in places:
        path = os.path.join(place, "hostile-%d" % os.getpid())
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except OSError:
            continue
        found.append(place)
        os.unlink(path)
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
