"""A record's trigger as a program that nobody knows.

python triggers.py FOLDER OUT REPRO: nan_probe and the harness lie in FOLDER. The
trigger of REPRO runs under the mode that sees every op; the first call that made a NaN
is kept in OUT, unless that is "". Prints JSON: whether one was made, by an op or from
outside, slice and law, and the folder of the capture or why there is none.
"""

from __future__ import annotations

import json
import os
import sys

import torch

sys.path.insert(0, sys.argv[1])
from harness.contract import parse_header
from harness.identity import load_repro, offer_parameters
from nan_probe.catching import Public, kept
from nan_probe.known import known_by
from nan_probe.patches import Mode
from nan_probe.session import Session
from nan_probe.slices import Chain
from nan_probe.steps import Step


def loaded(path):
    """The repro as the harness imports it, with its parameters by default."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    offer_parameters(parse_header(source), {})
    return load_repro(path, source)


def births_of(trigger):
    step, mode = Step(Session()), Mode()
    mode.step, step.chain = step, Chain(step.weight_names)
    with mode, Public() as public:
        step.public = public
        trigger()
    step.finish()
    found = [one for one in step.births if not one.on_purpose]
    return [one for one in found if one.facts.nan] or found


def main(out, path):
    found = births_of(loaded(path).trigger)
    if not found:
        return {"made": None}
    birth = found[0].first() if found[0].first().call else found[0]
    if birth.cause in ("input", "weight", "unseen", "unwritten", "fill"):
        return {"made": "outside"}
    folder, why = kept(birth, out) if out else (None, "not asked for")
    same, alike = known_by(birth.slice, birth.law)
    value = "nan" if found[0].facts.nan else "inf"
    known = {"law": birth.law, "slice": birth.slice, "same": same, "alike": alike}
    return {
        "made": "op",
        "op": birth.op,
        "folder": folder,
        "why": why,
        "value": value,
        **known,
    }


if __name__ == "__main__":
    stdout = os.dup(1)
    os.dup2(2, 1)
    torch.manual_seed(0)
    os.write(stdout, json.dumps(main(sys.argv[2], sys.argv[3])).encode())
