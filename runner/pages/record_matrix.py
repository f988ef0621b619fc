"""The matrix of one record: its builds by the checks of each repro."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from django.db.models import Prefetch

from kb import badges
from kb.addresses import record_or_404
from kb.choices import DeviceClass, Verdict
from kb.findings.checks import kind_of, title_of
from kb.languages import current_lang
from kb.models import Finding, Record, Repro
from runner.pages.grid import Column, Square, columns_of, flip_of, range_label
from runner.pages.matrix import RECORD_FIELDS
from runner.pages.record.check_matrix import check_order
from runner.pages.squares import JUDGED, check_square, untested


@dataclass(frozen=True)
class CheckColumn:
    """A check; `title` says what it does."""

    name: str
    title: str


@dataclass(frozen=True)
class BuildsRow:
    """Neighbouring builds on which every check shows the same, newest first."""

    columns: list[Column]
    squares: list[Square]
    flip: str

    @property
    def build(self) -> Column | None:
        """The only one, or None of several."""
        return self.columns[0] if len(self.columns) == 1 else None

    @property
    def label(self) -> str:
        """ "2.13.0", or the oldest and the newest of several."""
        return range_label(self.columns[-1], self.columns[0])


# From rows of one build each, oldest first, to the rows as shown, newest first.
Fold = Callable[[list[BuildsRow]], Iterator[BuildsRow]]


@dataclass(frozen=True)
class ReproMatrix:
    """Of one repro on one device class; `gpus`: names of those it ran on."""

    repro: str
    device: str
    is_model: bool
    checks: list[CheckColumn]
    rows: list[BuildsRow]
    gpus: list[str]

    @property
    def tables(self) -> list[CheckTable]:
        """What was tried in vain stands by itself: all side by side are too many."""
        refuted = [kind_of(check.name) == "refuted" for check in self.checks]
        both = [self.table(refuted, of=False), self.table(refuted, of=True)]
        return [table for table in both if table.checks]

    def table(self, refuted: list[bool], *, of: bool) -> CheckTable:
        places = [at for at, is_refuted in enumerate(refuted) if is_refuted is of]
        checks = [self.checks[at] for at in places]
        rows = [
            replace(row, squares=[row.squares[at] for at in places])
            for row in self.rows
        ]
        return CheckTable(checks, rows, of)


@dataclass(frozen=True)
class CheckTable:
    """Some checks of a repro, by builds."""

    checks: list[CheckColumn]
    rows: list[BuildsRow]
    is_refuted: bool


@dataclass(frozen=True)
class RecordMatrix:
    record: Record
    parts: list[ReproMatrix]


def find(record_id: str) -> Record:
    """A listed record with its repros and fresh findings. Raises Http404."""
    # Whether code tells the bug is a matter of the record's page, not of builds.
    findings = (
        Finding.objects.fresh()
        .exclude(check_name__startswith="diagnose_")
        .exclude(check_name__startswith="variant_")
    )
    repros = Repro.objects.defer("source", "header")
    rows = Record.objects.visible().only(*RECORD_FIELDS, "check_titles")
    along = Prefetch("findings", findings), Prefetch("repros", repros)
    return record_or_404(rows.prefetch_related(*along), record_id.upper())


def build(record: Record, builds: tuple[str, ...] = ()) -> RecordMatrix:
    """Of all tested builds, or of these, which are not folded."""
    groups: dict[tuple[bool, str, str], list[Finding]] = defaultdict(list)
    for row in record.findings.all():
        if not builds or row.build in builds:
            groups[row.is_model, row.repro, row.device_class].append(row)
    fold = folded if not builds else reversed
    parts = [part(record, groups[key], fold) for key in sorted(groups)]
    return RecordMatrix(record, parts)


def part(record: Record, findings: list[Finding], fold: Fold) -> ReproMatrix:
    first = findings[0]
    by_cell = {(row.build, row.check_name): row for row in findings}
    order = check_order(record, {(row.repro, row.check_name) for row in findings})
    lang = current_lang()
    checks = [CheckColumn(name, title_of(record, name)[lang]) for _repro, name in order]
    columns = columns_of({row.build: row.build_raw for row in findings})
    rows = list(fold(list(rows_of(columns, checks, by_cell))))
    device = first.device_class
    gpus = {row.device_name for row in findings if device != DeviceClass.CPU}
    return ReproMatrix(
        first.repro, device, first.is_model, checks, rows, sorted(gpus - {""})
    )


Cells = dict[tuple[str, str], Finding]


def rows_of(
    columns: list[Column], checks: list[CheckColumn], by_cell: Cells
) -> Iterator[BuildsRow]:
    """A row per build, oldest first; a flip is marked where the verdict turns."""
    judged = ""
    for column in columns:
        squares = [square(by_cell.get((column.slug, check.name))) for check in checks]
        trigger = by_cell.get((column.slug, "trigger"))
        now = JUDGED.get(Verdict(trigger.verdict), "") if trigger else ""
        yield BuildsRow([column], squares, flip_of(judged, now))
        judged = now or judged


def square(row: Finding | None) -> Square:
    """What one check showed on one build; of the trigger, the run's verdict."""
    lang = current_lang()
    if row is None:
        return untested(lang)
    shown = check_square(row, lang)
    is_gate = row.check_name in badges.GATES and row.outcome
    return instrument(shown, row) if is_gate else shown


def instrument(shown: Square, row: Finding) -> Square:
    """Of a check that shows nothing of the build: words, a mark only if it failed."""
    mark = badges.of_check(row.check_name, row.outcome, current_lang())
    css = mark.css.removeprefix("v-") or "none"
    return Square(css, mark.shape, shown.words, shown.words, "", row.evidence)


def folded(rows: list[BuildsRow]) -> Iterator[BuildsRow]:
    """Newest first; equal neighbours as one row, which keeps the older one's flip."""
    group: list[BuildsRow] = []
    for row in reversed(rows):
        if group and (group[-1].flip or not same(group[-1], row)):
            yield merged(group)
            group = []
        group.append(row)
    if group:
        yield merged(group)


def same(one: BuildsRow, other: BuildsRow) -> bool:
    pairs = zip(one.squares, other.squares, strict=True)
    return all(a.same_as(b) for a, b in pairs)


def merged(rows: list[BuildsRow]) -> BuildsRow:
    columns = [column for row in rows for column in row.columns]
    return BuildsRow(columns, rows[0].squares, rows[-1].flip)
