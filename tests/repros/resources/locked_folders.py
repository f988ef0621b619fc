# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Leaves folders that nobody may enter, for whoever has to remove them."""

import os
import tempfile


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    folder = tempfile.mkdtemp()
    for number in range(3):
        inner = os.path.join(folder, str(number))
        os.mkdir(inner)
        open(os.path.join(inner, "file"), "w").close()
        os.chmod(inner, 0)
    os.chmod(folder, 0)
    return {"reached": 0}
