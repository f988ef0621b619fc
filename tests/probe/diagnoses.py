"""What a record's diagnosis says of its own trigger, caught and shrunk.

python diagnoses.py FOLDER CODES: nan_probe and the harness lie in FOLDER; CODES is a
file of JSON, record -> [path of its repro, code of its diagnosis]. Prints JSON: record
-> the function that was caught, its slice, and what the diagnosis says of the captured
operands and of ones in their place.
"""

from __future__ import annotations

import json
import os
import sys

import torch

sys.path.insert(0, sys.argv[1])
import triggers
from nan_probe import captures
from nan_probe.calls import encoded
from nan_probe.known import DIAGNOSES
from nan_probe.shrinking import Shrinker


def captured(path):
    """The capture that the child of a watch writes."""
    found = triggers.births_of(triggers.loaded(path).trigger)
    birth = found[0].first() if found[0].first().call else found[0]
    call = birth.call._asdict()
    call.update(direction=birth.place.direction, slice=birth.slice)
    for run in captures.candidates(call):
        try:
            run.check(run.args)
            made = captures.capture_of(Shrinker(run).shrunk(), call)
            made["digest"] = captures.digest_of(made)
            return captures.checked(json.dumps(made))
        except (ValueError, LookupError):
            continue
    raise ValueError(path)


def with_ones(capture):
    run = captures.run_of(capture)
    args = [torch.ones_like(x) if isinstance(x, torch.Tensor) else x for x in run.args]
    call = {**capture["call"], "args": list(map(encoded, args))}
    return {**capture, "call": call}


def asked(record, path, code):
    capture, (name, _, operands) = captured(path), DIAGNOSES[record]
    given = (f"diagnose_{name}", code, operands)
    return {
        "function": capture["call"]["function"],
        "slice": capture["slice"],
        "captured": captures.diagnosed(capture, *given),
        "ones": captures.diagnosed(with_ones(capture), *given),
    }


if __name__ == "__main__":
    stdout = os.dup(1)
    os.dup2(2, 1)
    torch.manual_seed(0)
    with open(sys.argv[2]) as file:
        codes = json.load(file)
    found = {record: asked(record, *given) for record, given in codes.items()}
    os.write(stdout, json.dumps(found).encode())
