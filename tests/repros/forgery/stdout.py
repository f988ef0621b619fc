"""Prints a report and ends with status 0."""

import json
import os


def trigger():
    for line in (
        {"t": "hello", "identity": {}},
        {"t": "result", "check": "trigger", "trial": 0, "observations": {"reached": 0}},
        {"t": "end"},
    ):
        print(json.dumps(line))
    print('{"verdict": "bug_absent"}', flush=True)
    os._exit(0)
