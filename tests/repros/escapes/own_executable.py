# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Opens the interpreter that runs it for writing, and what the harness reads."""

import os
import sys


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


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
