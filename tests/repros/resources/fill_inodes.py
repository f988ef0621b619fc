# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 30
# memory_mib = 1024
# ///
"""Makes empty files for ever, at most 20,000."""

import os
import tempfile


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    folder = tempfile.mkdtemp()
    made = 0
    try:
        for _ in range(20000):
            os.close(os.open("%s/%d" % (folder, made), os.O_CREAT | os.O_WRONLY))
            made += 1
    except OSError as error:
        print("after", made, error)
    return {"reached": int(made == 20000), "made": made}
