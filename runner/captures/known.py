"""Which record a capture is by its slice, and the record's own diagnosis of it.

Of an equal law no record is named: many programs fail by the same one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from kb.models import Record
from portable.nan_probe.known import DIAGNOSES, known_by
from runner.models import Capture


@dataclass(frozen=True)
class Diagnosis:
    """A function of a record's repro, and what it is given of the captured call."""

    function: str
    code: str
    operands: str


def record_of(capture: Capture) -> Record | None:
    """The record whose trigger has the very slice of a capture, where one has it."""
    same, _alike = known_by(json.loads(capture.text).get("slice"), None)
    return Record.objects.visible().filter(pk__in=same).first()


def diagnosis_of(record: Record | None, capture: Capture) -> Diagnosis | None:
    """None where it asks what the captured call does not hold."""
    if record is None or record.pk not in DIAGNOSES:
        return None
    name, functions, operands = DIAGNOSES[record.pk]
    function = json.loads(capture.text)["call"]["function"]
    if function.rpartition(".")[2].strip("_") not in functions.split():
        return None
    codes = {row["name"]: row["code"] for row in record.diagnoses}
    return (
        Diagnosis(f"diagnose_{name}", codes[name], operands) if name in codes else None
    )
