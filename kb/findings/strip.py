"""The builds that a record ran on, as a strip: a cell for each, and what is documented.

A device class that ran anything has a strip of its own. A word stands where a range of
equal builds begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Generic, NamedTuple, Protocol, TypeVar

from django.utils.translation import gettext as _, ngettext

from kb import wording
from kb.choices import JUDGED, Verdict
from kb.findings.remedies import TORCH
from kb.findings.results import cells
from kb.languages import COLON, current_lang
from kb.models import Finding, Record
from kb.versions import order
from kb.versions.ranges import AFFECTED, in_range, parse_version

# The first of these that a repro shows is the build's.
VERDICTS = list(Verdict)
CSS = {Verdict.BUG_PRESENT: "rs-bug", Verdict.BUG_ABSENT: "rs-ok"}


class Run(NamedTuple):
    """What ran on one build: the verdict that counts, and its evidence."""

    cell: Finding
    label: str
    documented: bool
    is_yours: bool

    @property
    def css(self) -> str:
        return CSS.get(Verdict(self.cell.verdict), "")

    @property
    def word(self) -> str:
        return wording.STANDINGS[self.cell.verdict][current_lang()]


Kind = TypeVar("Kind", bound="Shown")


class Shown(Protocol):
    """A cell: the release, the class of its cell, its word."""

    @property
    def label(self) -> str: ...
    @property
    def css(self) -> str: ...
    @property
    def word(self) -> str: ...


@dataclass(frozen=True)
class Range(Generic[Kind]):
    """Neighbours with the same verdict. `is_end`: up to the newest, after a bug."""

    runs: Sequence[Kind]
    is_end: bool

    @property
    def first(self) -> Kind:
        return self.runs[0]

    @property
    def said(self) -> str:
        """ "Bug in 2.0.1 to 2.4.1: 5 builds"."""
        return f"{self.first.word} {self.where or self.first.label}"

    @property
    def where(self) -> str:
        """ "in 2.0.1 to 2.4.1: 5 builds"; "" of a single one."""
        count = len(self.runs)
        if count == 1:
            return ""
        names = {"first": self.first.label, "last": self.runs[-1].label, "n": count}
        if self.is_end and self.first.css == "rs-ok":
            since = ngettext(
                "since %(first)s: %(n)s build", "since %(first)s: %(n)s builds", count
            )
            return since % names
        return (
            ngettext(
                "in %(first)s to %(last)s: %(n)s build",
                "in %(first)s to %(last)s: %(n)s builds",
                count,
            )
            % names
        )


@dataclass(frozen=True)
class Strip:
    """What ran on one device class. `fixed_in`: where the documented range ends."""

    device: str
    ranges: list[Range[Run]]
    fixed_in: str

    @property
    def runs(self) -> list[Run]:
        return [run for part in self.ranges for run in part.runs]

    @property
    def is_documented(self) -> bool:
        return any(run.documented for run in self.runs)

    @property
    def said(self) -> str:
        """ "CPU: Bug in 2.0.1 to 2.4.1: 5 builds · No bug seen since 2.5.1"."""
        return " · ".join(map(self.said_of, self.ranges))

    def said_of(self, part: Range[Run]) -> str:
        """The first is said with the device."""
        name = self.device.upper() + COLON[current_lang()]
        return f"{name if part is self.ranges[0] else ''}{part.said}"

    @property
    def first_fixed(self) -> Run | None:
        """The first build behind the documented range, where its end is written."""
        ends = [
            after
            for run, after in pairwise(self.runs)
            if run.documented > after.documented
        ]
        return ends[-1] if len(ends) == 1 and self.fixed_in else None


def of_record(record: Record, findings: Iterable[Finding], torch: str) -> list[Strip]:
    """Of each device class with a verdict, CPU first.

    `torch`: the build of the reader, by slug or version, or "".
    """
    ordered = cells(findings)
    devices = {row.device_class for row in ordered if row.verdict in JUDGED}
    return [
        strip(record, [cell for cell in ordered if cell.device_class == device], torch)
        for device in sorted(devices)
    ]


def strip(record: Record, ordered: list[Finding], torch: str) -> Strip:
    by_build: dict[str, list[Finding]] = {}
    for cell in ordered:
        by_build.setdefault(cell.build, []).append(cell)
    labels = order.column_labels({cell.build: cell.build_raw for cell in ordered})
    runs = []
    for slug, found in by_build.items():
        cell = min(found, key=lambda row: VERDICTS.index(Verdict(row.verdict)))
        # Another build of the same release is not the reader's.
        yours = torch in (slug, cell.build_raw)
        # A cell has room for a release.
        label = order.release_of(cell.build_raw) or labels[slug].partition("-")[0]
        runs.append(Run(cell, label, is_documented(record, cell.build_raw), yours))
    return Strip(ordered[0].device_class, ranges_of(runs), documented_end(record))


def ranges_of(runs: Iterable[Kind]) -> list[Range[Kind]]:
    parts = [list(rows) for _word, rows in groupby(runs, lambda run: run.word)]
    had_bug = any(rows[0].css == "rs-bug" for rows in parts)
    return [Range(rows, had_bug and rows is parts[-1]) for rows in parts]


def is_documented(record: Record, raw: str) -> bool:
    """Whether what is documented names this version of torch as affected."""
    build = parse_version(raw)
    return any(
        in_range(entry["events"], build) == AFFECTED
        for entry in record.affected
        if entry["package"] == TORCH and entry.get("events")
    )


def documented_end(record: Record) -> str:
    """ "fixed in 2.5.0", where one release of torch has the fix."""
    versions = {
        fix["version"]
        for fix in record.fixes
        if fix["package"] == TORCH and fix.get("version")
    }
    if len(versions) != 1:
        return ""
    return _("fixed in %(version)s") % {"version": versions.pop()}
