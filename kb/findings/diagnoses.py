"""Which code that tells whether a bug is a reader's own may be shown.

The code ran in the checks of a repro. It is shown where every run that showed the bug
had it true in the trigger and false in the control: `kb.choices.Outcome.CLEAN` in the
finding `diagnose_<name>`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kb.choices import Outcome
from kb.models import Finding, Record


def of_record(record: Record, findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Name, text and code of each that may be shown, with the newest evidence."""
    rows = list(findings)
    shown = []
    for entry in record.diagnoses:
        runs = [row for row in rows if counts(row, entry["name"])]
        if runs and all(row.outcome == Outcome.CLEAN for row in runs):
            shown.append({**entry, "evidence": runs[-1].evidence})
    return shown


def counts(row: Finding, name: str) -> bool:
    return row.check_name == f"diagnose_{name}" and not (row.stale or row.is_model)
