"""What runs showed, as rows that evidence would have left."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from kb.findings import standings
from kb.models import Finding, Record

BUG = "bug_present"


def finding(
    record: Record | str | None,
    /,
    raw: str = "2.13.0+cpu",
    verdict: str = BUG,
    **columns: Any,
) -> Finding:
    """Not yet stored. Of a run on the CPU, by default of the trigger of `repro`."""
    key = "record_id" if isinstance(record, str) else "record"
    row = {
        key: record,
        "repro": "repro",
        "fidelity": "upstream_bug",
        "build": raw.replace("+", "-"),
        "build_raw": raw,
        "device_class": "cpu",
        "check_name": "trigger",
        "outcome": "bug" if verdict == BUG else "clean",
        "verdict": verdict,
        "hits": int(verdict == BUG),
        "trials": 1,
        "origin": "site",
        "evidence": "sha256:" + "0" * 64,
        "observed_at": timezone.now(),
    }
    return Finding(**row | columns)


def stored(*given: Any, **columns: Any) -> Finding:
    """The same as a row, and what follows from it for its record."""
    found = finding(*given, **columns)
    found.save()
    standings.refresh(found.record)
    return found


def saw(record: str, check: str, outcome: str, raw: str = "2.4.0+cpu") -> None:
    """A check of the record ended so on this build, which has the bug."""
    stored(record, raw, check_name=check, outcome=outcome, evidence="sha256:ab")
