"""Verdicts of a record over builds, in the order of the builds' versions. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise, product
from typing import Any, NamedTuple

from kb.choices import JUDGED, DeviceClass, Verdict
from kb.models import Finding
from kb.versions.order import build_order

KIND_OF_FLIP: dict[str, str] = {
    Verdict.BUG_PRESENT: "first_bad",
    Verdict.BUG_ABSENT: "first_good",
}


@dataclass(frozen=True)
class Flip:
    """Two neighbouring tested builds that disagree."""

    kind: str  # first_bad | first_good
    before: Finding
    after: Finding


def cells(findings: Iterable[Finding]) -> list[Finding]:
    """The current verdicts, without models, in the order of versions."""
    current = (row for row in findings if row.is_fresh_verdict and not row.is_model)
    return sorted(current, key=lambda row: build_order(row.build_raw, row.build))


def flips(ordered: list[Finding]) -> list[Flip]:
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


class Counted(NamedTuple):
    """Of the builds that were judged on a device, those that show the bug."""

    device: str
    present: int
    total: int


def counted(judged: Iterable[Finding]) -> list[Counted]:
    """By device class; a build counts once, whatever its repros say."""
    rows = list(judged)
    found = []
    for device in sorted({cell.device_class for cell in rows}):
        on_it = [cell for cell in rows if cell.device_class == device]
        total = {cell.build for cell in on_it}
        found.append(Counted(device, len(showing(on_it)), len(total)))
    return found


def showing(judged: Iterable[Finding]) -> set[str]:
    """The builds on which a repro shows the bug."""
    return {cell.build for cell in judged if cell.verdict == Verdict.BUG_PRESENT}


def summary(findings: Iterable[Finding]) -> dict[str, Any]:
    """`results` of a record in the API.

    `first_bad` is the oldest build that shows the bug, `first_good` the oldest
    one without it that follows a build with it; null where none was tested.
    """
    ordered = cells(findings)
    judged = [cell for cell in ordered if cell.verdict in JUDGED]
    bad = showing(judged)
    good = [flip.after for flip in flips(ordered) if flip.kind == "first_good"]
    moments = [cell.observed_at for cell in judged]
    return {
        "present": len(bad),
        "absent": len({cell.build for cell in judged} - bad),
        "first_bad": next((cell.build for cell in judged if cell.build in bad), None),
        "first_good": good[0].build if good else None,
        "last_verified": timestamp(max(moments)) if moments else None,
        "devices": counted(judged),
    }


class Trust(NamedTuple):
    """What of today's repros ran, and an evidence to look at."""

    runs: int
    models: int  # of the runs those of a model of the mechanism
    builds: int
    proof: Finding | None


def trust(findings: Iterable[Finding]) -> Trust:
    """Its proof is the bug on the newest build that has it, else the newest verdict."""
    fresh = [row for row in findings if not row.stale]

    def worth(row: Finding) -> tuple[Any, ...]:
        shows_bug = row.verdict == Verdict.BUG_PRESENT and not row.is_model
        return shows_bug, build_order(row.build_raw, row.build), row.observed_at

    return Trust(
        len({row.evidence for row in fresh}),
        len({row.evidence for row in fresh if row.is_model}),
        len({row.build for row in fresh}),
        max((row for row in fresh if row.verdict in JUDGED), key=worth, default=None),
    )


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
