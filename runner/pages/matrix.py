"""The matrix: records by builds, and the checks of one record by builds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from django.db.models import Prefetch, QuerySet
from django.http import QueryDict

from kb.choices import DeviceClass, Outcome, Verdict
from kb.languages import current_lang
from kb.models import Finding, Record, Repro, Standing, TestedBuild
from kb.pages.paging import Window, window
from kb.search.index.generation import Generation, current_generation
from kb.search.ranking.filters import stored_values
from kb.versions.order import build_order, column_labels
from runner.models import Build
from runner.pages.grid import Span, Square, fold, from_badge
from runner.pages.observations import group_of
from runner.wording import verdicts

PER_PAGE = 50
# What the matrix shows of a record and of a repro; their texts are not among it.
RECORD_FIELDS = ("slug", "publication", "title_en", "title_zh")
REPRO_FIELDS = ("record", "name", "fidelity", "device")
CSS = {
    Verdict.BUG_PRESENT: "fail",
    Verdict.BUG_ABSENT: "pass",
    Verdict.NOT_APPLICABLE: "none",
}
SHOWN_CHECKS = ("trigger", "workaround", "refuted")
JUDGED = {Verdict.BUG_PRESENT: "bug", Verdict.BUG_ABSENT: "clean"}
# What a cell shows of a finding.
SHOWN = (
    *("record", "repro", "fidelity", "build", "build_raw", "device_class"),
    *("check_name", "verdict", "verdict_reason", "hits", "trials", "stale"),
    *("evidence", "observed_at"),
)


@dataclass(frozen=True)
class Column:
    slug: str
    label: str


@dataclass(frozen=True)
class MatrixRow:
    """A repro of the bug itself on one device class: a finding or none per column."""

    record: Record
    repro: str
    device: str
    findings: list[Finding | None]
    spans: list[Span]

    @property
    def flips(self) -> bool:
        return any(span.flip for span in self.spans)


@dataclass(frozen=True)
class Filter:
    """What the address asks for; "" and () for everything."""

    component: str = ""
    device: str = ""
    only_flips: bool = False
    builds: tuple[str, ...] = ()

    @classmethod
    def of(cls, query: QueryDict) -> Filter:
        device = query.get("device", "")
        return cls(
            query.get("component", ""),
            device if device in DeviceClass.values else "",
            query.get("show") == "flips",
            tuple(slug for slug in query.getlist("build") if slug),
        )

    def standings(self) -> QuerySet[Standing]:
        """Of the records that may have a row, by id."""
        rows = Standing.objects.order_by("pk")
        if self.component:
            rows = rows.filter(facets__contains=f"\ncomponent:{self.component}\n")
        if self.device:
            rows = rows.filter(facets__contains=f"\ndevice:{self.device}\n")
        if self.only_flips:
            rows = rows.filter(record__flips__isnull=False).distinct()
        return rows

    def shows(self, row: MatrixRow) -> bool:
        on_device = not self.device or row.device == self.device
        return on_device and (not self.only_flips or row.flips)


@dataclass(frozen=True)
class ModelRuns:
    """Runs of one record's models that ended alike, oldest build first."""

    record: Record
    runs: list[Finding]


@dataclass(frozen=True)
class Matrix:
    """One page of records. `every_column`: also those that the filter hides."""

    filter: Filter
    columns: list[Column]
    every_column: list[Column]
    rows: list[MatrixRow]
    models: list[Finding]
    unrun_models: list[Record]
    unrunnable: list[Record]
    components: list[str]
    window: Window

    @property
    def modelled(self) -> list[ModelRuns]:
        """The models' runs by record, equal verdicts together."""
        groups: dict[tuple[object, ...], list[Finding]] = defaultdict(list)
        for row in sorted(self.models, key=lambda row: row.record_id):
            outcome = (row.verdict, row.verdict_reason, row.hits, row.trials)
            groups[row.record_id, row.repro, row.device_class, *outcome].append(row)
        return [
            ModelRuns(rows[0].record, sorted(rows, key=by_build))
            for rows in groups.values()
        ]


@dataclass(frozen=True)
class CheckRow:
    name: str
    kind: str
    spans: list[Span]


@dataclass(frozen=True)
class CheckMatrix:
    columns: list[Column]
    rows: list[CheckRow]


def by_build(row: Finding) -> tuple[object, ...]:
    return build_order(row.build_raw, row.build)


def columns_of(raw: Mapping[str, str]) -> list[Column]:
    """Builds, slug -> raw version, oldest version first."""
    ordered = sorted(raw, key=lambda slug: build_order(raw[slug], slug))
    labels = column_labels({slug: raw[slug] for slug in ordered})
    return [Column(slug, labels[slug]) for slug in ordered]


def every_column() -> list[Column]:
    """The builds that were tested, and those that could be."""
    raw = dict(TestedBuild.objects.values_list("slug", "raw"))
    raw |= dict(Build.objects.runnable().values_list("slug", "raw"))
    return columns_of(raw)


def build_matrix(query: QueryDict) -> Matrix:
    query_filter = Filter.of(query)
    standings = query_filter.standings()
    page = window(query.get("page", ""), standings.count(), PER_PAGE)
    records = records_at(list(standings.values_list("pk", flat=True)[page.rows]))
    every = every_column()
    columns = [item for item in every if item.slug in query_filter.builds] or every
    triggers = [row for record in records for row in record.findings.all()]
    slugs = {column.slug for column in columns}
    return Matrix(
        filter=query_filter,
        columns=columns,
        every_column=every,
        rows=[row for row in matrix_rows(records, columns) if query_filter.shows(row)],
        models=[row for row in triggers if row.is_model and row.build in slugs],
        unrun_models=[row for row in records if is_unrun_model(row, triggers)],
        unrunnable=[record for record in records if not record.repros.all()],
        components=components(current_generation()),
        window=page,
    )


@lru_cache(maxsize=2)
def components(generation: Generation) -> list[str]:
    """Of all published records, by name; kept for this generation of standings."""
    rows = Standing.objects.order_by().values_list("facets", flat=True)
    every = {
        name for facets in rows for name in stored_values(facets).get("component", ())
    }
    return sorted(every)


def records_at(ids: list[str]) -> list[Record]:
    """These records by id, with their repros and fresh verdicts."""
    triggers = Finding.objects.fresh().triggers().select_related("record")
    triggers = triggers.only(*(f"record__{name}" for name in RECORD_FIELDS), *SHOWN)
    repros = Repro.objects.only(*REPRO_FIELDS)
    rows = Record.objects.filter(pk__in=ids).only(*RECORD_FIELDS).order_by("pk")
    return list(
        rows.prefetch_related(
            Prefetch("findings", triggers), Prefetch("repros", repros)
        )
    )


def is_unrun_model(record: Record, triggers: list[Finding]) -> bool:
    """It has nothing but a model, and that was not run either."""
    repros = record.repros.all()
    only_models = bool(repros) and all(repro.is_model for repro in repros)
    return only_models and all(row.record_id != record.id for row in triggers)


def matrix_rows(records: list[Record], columns: list[Column]) -> list[MatrixRow]:
    """One row per repro of the bug itself and device class that was run or could be."""
    labels = [column.label for column in columns]
    rows = []
    for record in records:
        for (repro, device), by_build in sorted(verdicts_by_build(record).items()):
            cells = [by_build.get(column.slug) for column in columns]
            spans = fold(labels, row_squares(cells))
            rows.append(MatrixRow(record, repro, device, cells, spans))
    return rows


def verdicts_by_build(record: Record) -> dict[tuple[str, str], dict[str, Finding]]:
    """(repro, device class) -> build -> its verdict, of the bug itself.

    A GPU repro on a processor says nothing, so it has no row of its own.
    """
    repros = [repro for repro in record.repros.all() if not repro.is_model]
    by_row: dict[tuple[str, str], dict[str, Finding]] = {
        (repro.name, repro.device): {} for repro in repros
    }
    own = set(by_row)
    for row in record.findings.all():
        if row.is_fresh_verdict and not row.is_model:
            key = (row.repro, row.device_class)
            by_row.setdefault(key, {})[row.build] = row
    names = {repro.name for repro in repros}
    return {
        key: by_build
        for key, by_build in by_row.items()
        if key in own or key[0] not in names or any(map(is_judged, by_build.values()))
    }


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
        badge = verdicts.likely(before.judged == "bug", lang)
        return replace(from_badge(badge, "inf", ""), likely=before.judged)
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
    columns = columns_of({row.build: row.build_raw for row in findings})
    labels = [column.label for column in columns]
    by_check: dict[tuple[str, str], dict[str, Finding]] = defaultdict(dict)
    # Where a build has both, the GPU's result: a GPU repro on a processor says little.
    for row in sorted(findings, key=lambda row: row.device_class):
        by_check[row.repro, row.check_name][row.build] = row
    rows = []
    for key in check_order(record, by_check):
        cells = [by_check[key].get(column.slug) for column in columns]
        kind, _, name = key[1].partition("_")
        rows.append(CheckRow(name or kind, kind, fold(labels, check_squares(cells))))
    return CheckMatrix(columns, rows)


def check_order(
    record: Record, keys: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    """(repro, check) in the order of the repros' own text."""
    order = [
        (repro.name, name) for repro in record.repros.all() for name in repro.checks
    ]
    return sorted(
        keys, key=lambda key: order.index(key) if key in order else len(order)
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
        words = verdicts.NOT_APPLICABLE.badge(lang).word
    text = f"{row.hits}/{row.trials}" if judged and row.trials else words
    return Square(css, shape, shape_css, text, words, judged, row.evidence)
