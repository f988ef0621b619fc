"""Verdicts of a record over builds, in the order of the builds' versions. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise, product
from typing import Any

from kb.choices import SITE, DeviceClass, Verdict
from kb.models import Finding
from kb.versions.order import build_order

KIND_OF_FLIP: dict[str, str] = {
    Verdict.BUG_PRESENT: "first_bad",
    Verdict.BUG_ABSENT: "first_good",
}
JUDGED = tuple(KIND_OF_FLIP)


@dataclass(frozen=True)
class Cell:
    """The verdict of one repro on one build and device class."""

    build: str
    build_raw: str
    device_class: str
    verdict: str
    reason: str
    hits: int
    trials: int
    fidelity: str
    evidence: str
    observed_at: datetime
    repro: str = ""
    origin: str = SITE
    confirmed: bool = True


@dataclass(frozen=True)
class Flip:
    """Two neighbouring tested builds that disagree."""

    kind: str  # first_bad | first_good
    before: Cell
    after: Cell


def cells(findings: Iterable[Finding]) -> list[Cell]:
    """One cell per verdict that stands, without models, in the order of versions."""
    return [cell for cell in shown_cells(findings) if cell.confirmed]


def shown_cells(findings: Iterable[Finding]) -> list[Cell]:
    """The same, and what was sent: to be shown as such; nothing follows of it."""
    current = [
        Cell(
            row.build,
            row.build_raw,
            row.device_class,
            row.verdict,
            row.verdict_reason,
            row.hits,
            row.trials,
            row.fidelity,
            row.evidence,
            row.observed_at,
            row.repro,
            row.origin,
            row.confirmed,
        )
        for row in findings
        if row.is_fresh_verdict and not row.is_model
    ]
    return sorted(current, key=lambda cell: build_order(cell.build_raw, cell.build))


def flips(ordered: list[Cell]) -> list[Flip]:
    """Where neighbouring builds disagree, per device class and repro.

    Only verdicts count as ends: a build that errors or cannot run is skipped. Repros
    may disagree on one build, such as that of a package's fixed release.
    """
    flipped = []
    repros = sorted({cell.repro for cell in ordered})
    for of_class in product(DeviceClass.values, repros):
        judged = [
            cell
            for cell in ordered
            if cell.verdict in JUDGED and (cell.device_class, cell.repro) == of_class
        ]
        flipped += [
            Flip(KIND_OF_FLIP[after.verdict], before, after)
            for before, after in pairwise(judged)
            if before.verdict != after.verdict
        ]
    return flipped


def summary(findings: Iterable[Finding]) -> dict[str, Any]:
    """`results` of a record in the API.

    `first_bad` is the oldest build that shows the bug, `first_good` the oldest
    one without it that follows a build with it; null where none was tested.
    """
    ordered = cells(findings)
    present = [cell for cell in ordered if cell.verdict == Verdict.BUG_PRESENT]
    absent = [cell for cell in ordered if cell.verdict == Verdict.BUG_ABSENT]
    good = [flip.after for flip in flips(ordered) if flip.kind == "first_good"]
    moments = [cell.observed_at for cell in present + absent]
    return {
        "present": len(present),
        "absent": len(absent),
        "first_bad": present[0].build if present else None,
        "first_good": good[0].build if good else None,
        "last_verified": timestamp(max(moments)) if moments else None,
    }


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
