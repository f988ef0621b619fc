"""Raises every limit of its own and of its parent, and its priority."""

import os
import resource


def trigger():
    found = []
    for name in dir(resource):
        if not name.startswith("RLIMIT_") or name == "RLIMIT_OFILE":
            continue
        which = getattr(resource, name)
        for pid in (0, os.getppid()):
            hard = resource.getrlimit(which)[1]
            wanted = resource.RLIM_INFINITY
            if hard == wanted:
                continue
            try:
                if pid == 0:
                    resource.setrlimit(which, (wanted, wanted))
                else:
                    resource.prlimit(pid, which)  # To read it is to be let in.
            except (OSError, ValueError):
                continue
            found.append("%s of %d" % (name, pid))
    try:
        os.nice(-10)
        found.append("nice")
    except OSError:
        pass
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        found.append("real time")
    except OSError:
        pass
    return {"reached": len(found), "ran": ", ".join(found)}
