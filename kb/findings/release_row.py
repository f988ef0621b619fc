"""A record's verdicts as a row over releases, for what travels elsewhere. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kb.choices import DeviceClass, Verdict
from kb.findings.results import Cell, cells
from kb.models import Finding
from kb.versions.order import release_of

# What counts where devices or builds differ: that the bug was seen says most.
STRONGEST = (
    Verdict.BUG_PRESENT,
    Verdict.BUG_ABSENT,
    Verdict.NOT_APPLICABLE,
    Verdict.ERROR,
)


@dataclass(frozen=True)
class Square:
    """The strongest verdict on the builds of one release."""

    release: str
    verdict: Verdict


@dataclass(frozen=True)
class Row:
    """One class of device; oldest release first."""

    device: str
    squares: tuple[Square, ...]


def rows(findings: Iterable[Finding]) -> tuple[Row, ...]:
    """A row for each class of device on which anything stands about the bug itself."""
    ordered = cells(findings)
    found = [
        Row(device, squares([cell for cell in ordered if cell.device_class == device]))
        for device in DeviceClass.values
    ]
    return tuple(row for row in found if row.squares)


def squares(ordered: Iterable[Cell]) -> tuple[Square, ...]:
    by_release: dict[str, list[Cell]] = {}
    for cell in ordered:
        # A build from source is no release: its slug begins with what it goes by.
        release = release_of(cell.build_raw) or cell.build.partition("-")[0]
        by_release.setdefault(release, []).append(cell)
    return tuple(
        Square(
            release,
            strongest([cell.verdict for cell in found]) or Verdict.ERROR,
        )
        for release, found in by_release.items()
    )


def strongest(found: Collection[str]) -> Verdict | None:
    """None of nothing."""
    verdict = next((verdict for verdict in STRONGEST if verdict in found), None)
    # Runs without a verdict are no verdict, whatever kept them from one.
    return verdict or (Verdict.ERROR if found else None)
