"""What runs showed, as rows that evidence would have left."""

from __future__ import annotations

from django.utils import timezone

from kb.findings import standings
from kb.models import Finding, Record


def saw(record: str, check: str, outcome: str, raw: str = "2.4.0+cpu") -> None:
    """A check of the record ended so on this build, which has the bug."""
    row = Record.objects.get(pk=record)
    Finding.objects.create(
        record=row,
        repro="repro",
        fidelity="upstream_bug",
        build=raw.replace("+", "-"),
        build_raw=raw,
        device_class="cpu",
        check_name=check,
        outcome=outcome,
        verdict="bug_present",
        evidence="sha256:ab",
        origin="site",
        observed_at=timezone.now(),
    )
    standings.refresh(row)
