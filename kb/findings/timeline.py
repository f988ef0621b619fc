"""Timelines: documented ranges and observed verdicts on an axis of versions. Pure.

An axis has the versions of one package in their order, not to scale. Only torch has
observations: builds are what the site runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from packaging.version import InvalidVersion, Version

from kb.findings.results import JUDGED, Cell, flips
from kb.models import Record
from kb.versions.ranges import parse_version

TORCH = "torch"
# Above it, runs of equal neighbours are folded to their ends.
MAX_POINTS = 14
START = "0"


@dataclass(frozen=True)
class Mark:
    """Something documented of a version. `kind`: a fix's kind, "introduced",
    "last_affected", "end" of a range without a fix, or "affected" and "not_affected"
    of a build that a source lists.
    """

    kind: str
    source: str = ""


@dataclass(frozen=True)
class Observation:
    """A verdict on a build of this version. `flip`: first_bad, first_good or ""."""

    cell: Cell
    flip: str = ""


@dataclass
class Point:
    """One version on the axis, and whether the documented range holds it.

    `affected` is None where the place on the axis does not tell: for pre-releases,
    whose number says little of what they contain, and for builds listed one by one.
    """

    version: Version
    label: str
    marks: list[Mark] = field(default_factory=list)
    observed: list[Observation] = field(default_factory=list)
    affected: bool | None = None


@dataclass(frozen=True)
class Band:
    """A documented range, by the numbers of its points; None: open on that side.

    `closed`: the last version is affected itself (last_affected).
    """

    first: int | None
    last: int | None
    closed: bool = False


@dataclass(frozen=True)
class Timeline:
    package: str
    points: list[Point]
    bands: list[Band]

    @property
    def devices(self) -> list[str]:
        """Device classes with an observation, in a fixed order."""
        return sorted(
            {
                observation.cell.device_class
                for row in self.points
                for observation in row.observed
            }
        )

    @property
    def is_drawn(self) -> bool:
        """A single mark needs no axis: the list of fixes has it."""
        return len(self.points) > 1 or bool(self.bands)

    @property
    def changes(self) -> bool:
        """Whether anything is marked on it; not where every version is as the next."""
        return any(
            point.marks or any(seen.flip for seen in point.observed)
            for point in self.points
        )


def of_record(record: Record, ordered: list[Cell]) -> list[Timeline]:
    """An axis per package that is worth one, torch first.

    `ordered`: the record's cells (kb.findings.results.cells).
    """
    named = [entry["package"] for entry in [*record.affected, *record.fixes]]
    packages = list(dict.fromkeys([TORCH, *named]))
    axes = [
        timeline(package, record, ordered if package == TORCH else [])
        for package in packages
    ]
    return [axis for axis in axes if axis.is_drawn]


def timeline(package: str, record: Record, ordered: list[Cell]) -> Timeline:
    entries = [entry for entry in record.affected if entry["package"] == package]
    fixes = [entry for entry in record.fixes if entry["package"] == package]
    points: dict[Version, Point] = {}
    for version, text, mark in documented(entries, fixes):
        point = points.setdefault(version, Point(version, text))
        if all(present.kind != mark.kind for present in point.marks):
            point.marks.append(mark)
    for observation in observations(ordered):
        place(points, observation)
    rows = folded(sorted(points.values(), key=lambda point: point.version))
    bands = [band for entry in entries for band in bands_of(entry, rows)]
    for number, point in enumerate(rows):
        if bands and not (point.version.is_prerelease or is_listed(point)):
            point.affected = any(holds(band, number) for band in bands)
    return Timeline(package, rows, bands)


def documented(
    entries: Iterable[dict[str, Any]], fixes: list[dict[str, Any]]
) -> Iterator[tuple[Version, str, Mark]]:
    """Bounds of ranges, listed builds and fixes that name a version."""
    fixed_in = {entry.get("version") for entry in fixes}
    for entry in entries:
        source = entry.get("source", "")
        for kind, text in steps(entry):
            if kind == "fixed" and text in fixed_in:
                continue  # the fix itself says more than the end of a range
            version = version_of(text)
            if version and text != START:
                yield version, text, Mark("end" if kind == "fixed" else kind, source)
        for listed in entry.get("builds", []):
            version = version_of(listed["raw"])
            if version:
                yield version, version.public, Mark(listed["state"], source)
    for entry in fixes:
        version = version_of(entry.get("version", ""))
        if version:
            yield (
                version,
                entry["version"],
                Mark(entry["kind"], entry.get("source", "")),
            )


def steps(entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for event in entry.get("events", []):
        yield from event.items()


def version_of(text: str) -> Version | None:
    """The public version, by which points are ordered; None for a commit or ""."""
    return parse_version(text).public if text else None


def observations(ordered: list[Cell]) -> Iterator[Observation]:
    turns = {
        (turn.after.build, turn.after.device_class, turn.after.repro): turn.kind
        for turn in flips(ordered)
    }
    for cell in ordered:
        if cell.verdict in JUDGED:
            key = cell.build, cell.device_class, cell.repro
            yield Observation(cell, turns.get(key, ""))


def place(points: dict[Version, Point], observation: Observation) -> None:
    version = version_of(observation.cell.build_raw)
    if version is not None:
        point = points.setdefault(version, Point(version, version.public))
        point.observed.append(observation)


def folded(points: list[Point]) -> list[Point]:
    """Without the inner ones of equal neighbours, where there are too many."""
    if len(points) <= MAX_POINTS:
        return points
    inner = [
        point
        for before, point, after in zip(points, points[1:], points[2:], strict=False)
        if point.marks
        or not (content_of(before) == content_of(point) == content_of(after))
    ]
    return [points[0], *inner, points[-1]]


def content_of(point: Point) -> tuple[bool, frozenset[tuple[str, str]]]:
    shown = {
        (observation.cell.device_class, observation.cell.verdict)
        for observation in point.observed
    }
    return bool(point.marks), frozenset(shown)


def bands_of(entry: dict[str, Any], points: list[Point]) -> Iterator[Band]:
    """The ranges of one [[affected]], as numbers of points."""
    at = {point.version: number for number, point in enumerate(points)}
    try:
        events = sorted(steps(entry), key=lambda step: Version(step[1]))
    except InvalidVersion:
        return  # a range between commits has no place on an axis of versions
    ends = [*events, ("", "")]
    for (kind, text), (end, until) in pairwise(ends):
        if kind != "introduced":
            continue
        first = None if text == START else at.get(Version(text))
        last = at.get(Version(until)) if end in ("fixed", "last_affected") else None
        yield Band(first, last, closed=end == "last_affected")


def is_listed(point: Point) -> bool:
    return any(mark.kind in ("affected", "not_affected") for mark in point.marks)


def holds(band: Band, number: int) -> bool:
    after = band.first is None or number >= band.first
    if band.last is None:
        return after
    return after and (number <= band.last if band.closed else number < band.last)
