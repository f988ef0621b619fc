"""The matrix: records by builds, and the checks of one record by builds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.http import QueryDict

from kb.choices import DeviceClass, Outcome, Verdict
from kb.front_page import column_labels
from kb.languages import current_lang
from kb.models import Finding, Record
from kb.results import build_order
from runner import verdicts
from runner.grid import Span, Square, fold, from_badge
from runner.models import Build
from runner.observations import group_of

CSS = {
    Verdict.BUG_PRESENT: "fail",
    Verdict.BUG_ABSENT: "pass",
    Verdict.NOT_APPLICABLE: "none",
}
SHOWN_CHECKS = ("trigger", "workaround", "refuted")
JUDGED = {Verdict.BUG_PRESENT: "bug", Verdict.BUG_ABSENT: "clean"}


@dataclass(frozen=True)
class Column:
    slug: str
    label: str


@dataclass(frozen=True)
class MatrixRow:
    record: Record
    repro: str
    device: str
    spans: list[Span]

    @property
    def flips(self) -> bool:
        return any(span.flip for span in self.spans)


@dataclass(frozen=True)
class Matrix:
    columns: list[Column]
    rows: list[MatrixRow]
    models: list[Finding]
    unrun_models: list[Record]
    unrunnable: list[Record]
    components: list[str]
    component: str
    device: str
    only_flips: bool
    total: int


@dataclass(frozen=True)
class CheckRow:
    name: str
    kind: str
    spans: list[Span]


@dataclass(frozen=True)
class CheckMatrix:
    columns: list[Column]
    rows: list[CheckRow]


def columns_of(
    findings: Iterable[Finding], builds: Iterable[Build] = ()
) -> list[Column]:
    """Tested builds and `builds`, oldest version first."""
    raw = {row.build: row.build_raw for row in findings}
    raw |= {build.slug: build.raw for build in builds}
    ordered = sorted(raw, key=lambda slug: build_order(raw[slug], slug))
    labels = column_labels({slug: raw[slug] for slug in ordered})
    return [Column(slug, labels[slug]) for slug in ordered]


def build_matrix(query: QueryDict) -> Matrix:
    records = list(Record.objects.visible().prefetch_related("findings", "repros"))
    component = query.get("component", "")
    device = query.get("device", "")
    device = device if device in DeviceClass.values else ""
    only_flips = query.get("show") == "flips"
    kept = [row for row in records if not component or component in row.components]
    triggers = fresh_triggers(kept)
    cells = [row for row in triggers if not row.is_model]
    columns = columns_of(cells, Build.objects.runnable())
    rows = [
        row
        for row in matrix_rows(kept, columns)
        if (not device or row.device == device) and (not only_flips or row.flips)
    ]
    return Matrix(
        columns=columns,
        rows=rows,
        models=[row for row in triggers if row.is_model],
        unrun_models=[row for row in kept if is_unrun_model(row, triggers)],
        unrunnable=[record for record in kept if not record.repros.all()],
        components=sorted({name for record in records for name in record.components}),
        component=component,
        device=device,
        only_flips=only_flips,
        total=len(kept),
    )


def is_unrun_model(record: Record, triggers: list[Finding]) -> bool:
    """It has nothing but a model, and that was not run either."""
    repros = record.repros.all()
    only_models = bool(repros) and all(repro.is_model for repro in repros)
    return only_models and all(row.record_id != record.id for row in triggers)


def fresh_triggers(records: list[Record]) -> list[Finding]:
    return [
        row
        for record in records
        for row in record.findings.all()
        if row.is_fresh_verdict
    ]


def matrix_rows(records: list[Record], columns: list[Column]) -> list[MatrixRow]:
    """One row per repro of the bug itself and device class that was run or could be."""
    labels = [column.label for column in columns]
    rows = []
    for record in records:
        found: dict[tuple[str, str], dict[str, Finding]] = defaultdict(dict)
        for repro in record.repros.all():
            if not repro.is_model:
                found[repro.name, repro.device] = {}
        for row in record.findings.all():
            if row.is_fresh_verdict and not row.is_model:
                found[row.repro, row.device_class][row.build] = row
        devices = {repro.name: repro.device for repro in record.repros.all()}
        for (repro_name, device), by_build in sorted(found.items()):
            asked = device == devices.get(repro_name, device)
            if not asked and not any(map(is_judged, by_build.values())):
                continue  # a GPU repro on a processor: it says nothing
            squares = row_squares([by_build.get(column.slug) for column in columns])
            rows.append(MatrixRow(record, repro_name, device, fold(labels, squares)))
    return rows


def is_judged(row: Finding) -> bool:
    return row.verdict in JUDGED


def row_squares(findings: list[Finding | None]) -> list[Square]:
    """A square per column; one between two equal judged neighbours is "likely"."""
    lang = current_lang()
    squares = [verdict_square(row, lang) if row else None for row in findings]
    return [square or inferred(squares, at, lang) for at, square in enumerate(squares)]


def verdict_square(row: Finding, lang: str) -> Square:
    badge = verdicts.badge(
        row.verdict, row.hits, row.trials, row.fidelity, lang, row.verdict_reason
    )
    judged = JUDGED.get(Verdict(row.verdict), "")
    text = f"{row.hits}/{row.trials}" if judged else badge.word
    css = CSS.get(Verdict(row.verdict), "error")
    return from_badge(badge, css, text, judged=judged, evidence=row.evidence)


def inferred(squares: list[Square | None], at: int, lang: str) -> Square:
    before = next((s for s in reversed(squares[:at]) if s and s.judged), None)
    after = next((s for s in squares[at + 1 :] if s and s.judged), None)
    if before and after and before.judged == after.judged:
        return from_badge(verdicts.likely(before.judged == "bug", lang), "inf", "")
    return from_badge(verdicts.untested(lang), "none", "")


def build_check_matrix(record: Record) -> CheckMatrix:
    """Trigger, workarounds and refuted checks of the bug itself, by tested build."""
    findings = [
        row
        for row in record.findings.all()
        if not row.stale
        and not row.is_model
        and group_of(row.check_name) in SHOWN_CHECKS
    ]
    columns = columns_of(findings)
    labels = [column.label for column in columns]
    by_check: dict[tuple[str, str], dict[str, Finding]] = defaultdict(dict)
    # Where a build has both, the GPU's result: a GPU repro on a processor says little.
    for row in sorted(findings, key=lambda row: row.device_class):
        by_check[row.repro, row.check_name][row.build] = row
    rows = []
    for key in check_order(record, by_check):
        found = [by_check[key].get(column.slug) for column in columns]
        kind, _, name = key[1].partition("_")
        rows.append(CheckRow(name or kind, kind, fold(labels, check_squares(found))))
    return CheckMatrix(columns, rows)


def check_order(
    record: Record, found: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    """(repro, check) in the order of the repros' own text."""
    known = [
        (repro.name, name) for repro in record.repros.all() for name in repro.checks
    ]
    return sorted(
        found, key=lambda key: known.index(key) if key in known else len(known)
    )


def check_squares(findings: list[Finding | None]) -> list[Square]:
    lang = current_lang()
    return [
        check_square(row, lang) if row else inferred([], 0, lang) for row in findings
    ]


def check_square(row: Finding, lang: str) -> Square:
    if row.check_name == "trigger":
        return verdict_square(row, lang)
    shapes = {
        Outcome.BUG: ("fail", "✖", "sh-x", "bug"),
        Outcome.CLEAN: ("pass", "✔", "sh-y", "clean"),
        Outcome.NOT_APPLICABLE: ("none", "∅", "sh-n", ""),
    }
    if not row.outcome:
        return from_badge(verdicts.untested(lang), "none", "")
    css, shape, shape_css, judged = shapes.get(
        Outcome(row.outcome), ("error", "▲", "sh-e", "")
    )
    words = verdicts.outcome(row.check_name, row.outcome, lang)
    if row.outcome == Outcome.NOT_APPLICABLE:
        words = verdicts.NOT_APPLICABLE.word[lang]
    text = f"{row.hits}/{row.trials}" if judged and row.trials else words
    return Square(css, shape, shape_css, text, words, judged, row.evidence)
