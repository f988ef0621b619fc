"""Documented ranges as execution would have them: a proposal, never an edit. Pure.

A release that was run is as it was seen to be; one between two that were seen alike is
as they are; every other one stays as documented. So a range is only narrowed or widened
as far as runs reach.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from kb.choices import Verdict
from kb.findings.results import JUDGED, Cell
from kb.versions.order import release_of
from kb.versions.ranges import AFFECTED, in_range, parse_version

Events = list[dict[str, str]]
# Fewer clean trials of a bug that happens sometimes say nothing.
TRIALS_WHERE_UNCERTAIN = 3
# The release after the last one of a series: that of the next series.
LAST_OF_1 = (1, 13)


@dataclass(frozen=True)
class Proposal:
    """`before`, `after`: events of the record's one range of torch.

    `seen`: the releases where runs differ from what is documented -> whether the bug
    was there.
    """

    before: Events
    after: Events
    seen: Mapping[str, bool]


def propose(events: Events, cells: Iterable[Cell], known: Iterable[str]) -> Proposal:
    """`cells`: what stands of the record (`kb.findings.results.cells`).

    `known`: releases that there are; a bound is put at one of them, or at the first of
    a series. Without anything to change `after` is `before`. Raises InvalidVersion for
    a range between commits.
    """
    seen = observed(cells)
    documented = {release: is_affected(events, release) for release in seen}
    differing = {r: bug for r, bug in seen.items() if documented[r] != bug}
    if not differing or not any(seen.values()):
        return Proposal(events, events, differing)
    points = points_of(events, seen, known)
    status = [state_at(point, seen, events) for point in points]
    return Proposal(events, encoded(points, status, events), differing)


def observed(cells: Iterable[Cell]) -> dict[str, bool]:
    """Releases that runs settle, oldest first -> whether the bug is there.

    What never shows the bug, such as a repro for another device, says nothing; of the
    others all have to be clean.
    """
    groups: defaultdict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.verdict in JUDGED and release_of(cell.build_raw):
            groups[cell.repro, cell.device_class].append(cell)
    telling = [
        group
        for group in groups.values()
        if any(cell.verdict == Verdict.BUG_PRESENT for cell in group)
    ]
    found: defaultdict[str, list[bool | None]] = defaultdict(list)
    for group in telling:
        for release, bug in of_group(group).items():
            found[release].append(bug)
    settled = {
        release: any(bugs)
        for release, bugs in found.items()
        if any(bugs) or (None not in bugs and len(bugs) == len(telling))
    }
    return dict(sorted(settled.items(), key=lambda item: Version(item[0])))


def of_group(group: Sequence[Cell]) -> dict[str, bool | None]:
    """Of one repro on one class of device; None where too few trials were clean."""
    uncertain = any(0 < cell.hits < cell.trials for cell in group)
    found: dict[str, bool | None] = {}
    for cell in group:
        release = release_of(cell.build_raw)
        bug: bool | None = cell.verdict == Verdict.BUG_PRESENT
        if not bug and uncertain and cell.trials < TRIALS_WHERE_UNCERTAIN:
            bug = None
        found[release] = found.get(release) or bug
    return found


def is_affected(events: Events, release: str) -> bool:
    return in_range(events, parse_version(release)) == AFFECTED


def points_of(
    events: Events, seen: Mapping[str, bool], known: Iterable[str]
) -> list[Version]:
    """Releases at which a range may begin or end, oldest first."""
    named = [text for event in events for text in event.values() if text != "0"]
    points = {Version(text) for text in (*named, *seen, *known)}
    points |= {next_series(Version(release)) for release in seen}
    return sorted(points)


def next_series(version: Version) -> Version:
    if version.release[:2] == LAST_OF_1:
        return Version("2.0.0")
    return Version(f"{version.major}.{version.minor + 1}.0")


def state_at(point: Version, seen: Mapping[str, bool], events: Events) -> bool:
    """Whether it is affected, by runs around it, else by what is documented."""
    older = [bug for release, bug in seen.items() if Version(release) <= point]
    newer = [bug for release, bug in seen.items() if Version(release) >= point]
    if older and newer:
        agrees = older[-1] == newer[0]
        return older[-1] if agrees else is_affected(events, str(point))
    nearest = older[-1] if older else newer[0]
    # Beyond what was run a bug that was seen says nothing new; its absence does.
    return nearest and is_affected(events, str(point))


def encoded(points: list[Version], status: list[bool], events: Events) -> Events:
    """OSV events; the first one is 0 where the oldest point was documented so."""
    ends = {text for event in events for kind, text in event.items() if kind[0] == "l"}
    from_start = any(event.get("introduced") == "0" for event in events)
    found: Events = []
    before = False
    for at, (point, bug) in enumerate(zip(points, status, strict=True)):
        if bug and not before:
            text = "0" if at == 0 and from_start else str(point)
            found.append({"introduced": text})
        elif before and not bug:
            last = str(points[at - 1])
            found.append(
                {"last_affected": last} if last in ends else {"fixed": str(point)}
            )
        before = bug
    if before and str(points[-1]) in ends:
        found.append({"last_affected": str(points[-1])})
    return found


def is_orderable(events: Events) -> bool:
    """Whether it is a range between versions, not commits."""
    try:
        for event in events:
            for text in event.values():
                Version(text)
    except InvalidVersion:
        return False
    return bool(events)
