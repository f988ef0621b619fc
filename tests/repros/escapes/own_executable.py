"""Opens the interpreter that runs it for writing, and what the harness reads."""

import os
import sys


def trigger():
    found = []
    paths = {"/proc/self/exe", sys.executable, os.path.realpath(sys.executable)}
    paths |= {os.path.realpath(m.__file__) for m in list(sys.modules.values())
              if isinstance(getattr(m, "__file__", None), str)}
    paths.discard(os.path.realpath(__file__))
    for path in sorted(paths):
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError:
            continue
        found.append(path)
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
