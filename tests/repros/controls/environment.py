# env = {all = {HOSTILE_GIVEN = "7"}}
"""Asks for its environment, which the header sets."""

import os


def trigger():
    wrong = os.environ.get("HOSTILE_GIVEN") != "7"
    os.environ["HOSTILE_OWN"] = "1"
    wrong += os.popen("echo $HOSTILE_GIVEN $HOSTILE_OWN").read() != "7 1\n"
    return {"reached": int(wrong)}
