# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""An object that runs code when it is unpickled, and its pickle."""

import os
import pickle


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


class Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/hostile-pickle",)


def trigger():
    return {"reached": 0, "bomb": Bomb(), "pickled": pickle.dumps(Bomb())}
