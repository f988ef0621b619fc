"""The front page: what was judged last, and where a verdict flips between builds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from kb import results
from kb.choices import Verdict
from kb.models import Finding, Record

SHOWN = 6
AXIS = 15


@dataclass(frozen=True)
class RecordFlip:
    """A flip and the record it belongs to."""

    record: Record
    flip: results.Flip

    @property
    def is_good(self) -> bool:
        return self.flip.kind == "first_good"


@dataclass(frozen=True)
class Tick:
    """One tested build on the ruler, with the flips that happen there."""

    build: str
    label: str
    first_good: range
    first_bad: range


@dataclass(frozen=True)
class FrontPage:
    records: int
    builds: int
    verdicts: list[Finding]
    flips: list[RecordFlip]
    axis: list[Tick]


def build() -> FrontPage:
    records = list(Record.objects.visible().prefetch_related("findings"))
    flips = [found for record in records for found in record_flips(record)]
    tested = tested_builds(records)
    return FrontPage(
        records=len(records),
        builds=len(tested),
        verdicts=latest_verdicts(),
        flips=sorted(flips, key=newest_first, reverse=True)[:SHOWN],
        axis=ruler(tested, flips),
    )


def record_flips(record: Record) -> list[RecordFlip]:
    ordered = results.cells(record.findings.all())
    return [RecordFlip(record, flip) for flip in results.flips(ordered)]


def newest_first(found: RecordFlip) -> tuple[object, ...]:
    after = found.flip.after
    return (*results.build_order(after.build_raw, after.build), found.record.id)


def latest_verdicts() -> list[Finding]:
    """The newest judged trigger of each listed record, newest first."""
    rows = Finding.objects.triggers().fresh().filter(record__publication="published")
    judged = rows.exclude(verdict=Verdict.ERROR).select_related("record")
    newest: dict[str, Finding] = {}
    for row in judged.order_by("-observed_at", "build"):
        newest.setdefault(row.record_id, row)
        if len(newest) == SHOWN:
            break
    return list(newest.values())


def tested_builds(records: list[Record]) -> dict[str, str]:
    """Slug -> raw version of every build with a judged verdict, oldest first."""
    cells = {
        cell.build: cell.build_raw
        for record in records
        for cell in results.cells(record.findings.all())
        if cell.verdict in results.JUDGED
    }
    return dict(
        sorted(cells.items(), key=lambda item: results.build_order(item[1], item[0]))
    )


def ruler(tested: dict[str, str], flips: list[RecordFlip]) -> list[Tick]:
    """The newest builds, with how many records turn good or bad at each."""
    counts = Counter((found.flip.kind, found.flip.after.build) for found in flips)
    labels = column_labels(tested)
    return [
        Tick(
            slug,
            labels[slug],
            range(counts["first_good", slug]),
            range(counts["first_bad", slug]),
        )
        for slug in list(tested)[-AXIS:]
    ]


def column_labels(builds: dict[str, str]) -> dict[str, str]:
    """The release number where it names one build, else the whole slug."""
    releases = {slug: release_of(raw) for slug, raw in builds.items()}
    seen = Counter(releases.values())
    return {
        slug: release if release and seen[release] == 1 else slug
        for slug, release in releases.items()
    }


def release_of(raw: str) -> str:
    """ "2.6.0" of "2.6.0+cu124"; "" for a pre-release, which is no release."""
    public = raw.split("+")[0]
    try:
        return "" if Version(public).is_prerelease else public
    except InvalidVersion:
        return ""
