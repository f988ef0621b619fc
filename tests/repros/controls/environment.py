# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# env = {all = {HOSTILE_GIVEN = "7"}}
# ///
"""Asks for its environment, which the header sets."""

import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    wrong = os.environ.get("HOSTILE_GIVEN") != "7"
    os.environ["HOSTILE_OWN"] = "1"
    wrong += os.popen("echo $HOSTILE_GIVEN $HOSTILE_OWN").read() != "7 1\n"
    return {"reached": int(wrong)}
