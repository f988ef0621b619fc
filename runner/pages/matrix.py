"""The matrix: records by builds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache

from django.db.models import Exists, OuterRef, Prefetch, QuerySet
from django.http import QueryDict

from kb.choices import DeviceClass
from kb.models import Finding, Flip, Record, Repro, Standing, TestedBuild
from kb.pages.paging import Window, window
from kb.search.index.generation import Generation, current_generation
from kb.search.index.inverted import every_record, with_facet
from kb.versions.order import build_order, release_of
from portable import harness
from runner.models import Build
from runner.pages.grid import (
    Column,
    Release,
    Span,
    Square,
    columns_of,
    fold,
    releases_of,
)
from runner.pages.squares import JUDGED, row_squares

PER_PAGE = 50
# What the matrix shows of a record and of a repro; their texts are not among it.
RECORD_FIELDS = ("slug", "publication", "title_en", "title_zh")
REPRO_FIELDS = ("record", "name", "fidelity", "device")
# What a cell shows of a finding.
SHOWN = (
    *("record", "repro", "fidelity", "build", "build_raw", "device_class"),
    *("check_name", "verdict", "verdict_reason", "hits", "trials", "stale"),
    *("evidence", "observed_at", "origin", "device_name"),
)
# Of a row: repro, device class, name of the GPU or "".
RowKey = tuple[str, str, str]


@dataclass(frozen=True)
class MatrixRow:
    """A repro of the bug itself on one device: a finding or none per column.

    `gpu`: which one it ran on, "" on a CPU and where no GPU has run it.
    """

    record: Record
    repro: str
    device: str
    gpu: str
    findings: list[Finding | None]
    squares: list[Square]
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
            wants_flips(query, device),
            tuple(slug for slug in query.getlist("build") if slug),
        )

    @property
    def show(self) -> str:
        return "flips" if self.only_flips else "all"

    def standings(self) -> QuerySet[Standing]:
        """Of the records that may have a row, by id."""
        rows = Standing.objects.order_by("pk")
        if self.component:
            rows = rows.filter(pk__in=with_facet("component", self.component))
        if self.device in harness.DEVICES:
            rows = rows.filter(pk__in=with_facet("device", self.device))
        elif self.device:
            rows = rows.filter(pk__in=self.moved().values("record"))
        if self.only_flips:
            rows = rows.filter(Exists(Flip.objects.filter(record=OuterRef("pk"))))
        return rows

    def moved(self) -> QuerySet[Repro]:
        """Those that run on this device if somebody asks, none on those of workers."""
        if self.device in ("", *harness.DEVICES):
            return Repro.objects.none()
        return Repro.objects.filter(header__any_device=True)

    def shows(self, row: MatrixRow) -> bool:
        on_device = not self.device or row.device == self.device
        return on_device and (not self.only_flips or row.flips)


def wants_flips(query: QueryDict, device: str) -> bool:
    """The page shows what changes, where anything does; data are of everything."""
    show = query.get("show", "")
    if show or "format" in query:
        return show == "flips"
    flips = Flip.objects.all()
    return (flips.filter(device_class=device) if device else flips).exists()


@dataclass(frozen=True)
class ModelRuns:
    """Runs of one record's models that ended alike, oldest build first."""

    record: Record
    runs: list[Finding]


@dataclass(frozen=True)
class Matrix:
    """One page of records. `every_column`: also those that the filter hides.

    `tested`: releases on which something was run.
    """

    filter: Filter
    columns: list[Column]
    every_column: list[Column]
    tested: frozenset[str]
    rows: list[MatrixRow]
    models: list[Finding]
    unrun_models: list[Record]
    unrunnable: list[Record]
    components: list[str]
    window: Window

    @property
    def devices(self) -> list[str]:
        """Those of which it can be asked."""
        return DeviceClass.values

    @property
    def releases(self) -> list[Release]:
        return releases_of(self.columns, self.tested)

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


def by_build(row: Finding) -> tuple[object, ...]:
    return build_order(row.build_raw, row.build)


def every_column(
    tested: dict[str, str], device: str, generation: Generation
) -> list[Column]:
    """The builds that were tested (slug -> raw version), and those that could be.

    With those of GPUs that somebody else has: what was sent is shown as sent, and no
    GPU of this site may ever say more. A column of those names them.
    """
    runnable = dict(Build.objects.runnable().values_list("slug", "raw"))
    sent: dict[str, str] = {}
    gpus: dict[str, set[str]] = defaultdict(set)
    on_gpus = () if device == DeviceClass.CPU else gpu_builds(generation)
    for slug, raw, name in on_gpus:
        sent[slug] = raw
        gpus[slug].add(name)
    return [
        replace(column, gpus=tuple(sorted(gpus.get(column.slug, ()))))
        for column in columns_of(sent | tested | runnable)
    ]


@lru_cache(maxsize=2)
def gpu_builds(generation: Generation) -> tuple[tuple[str, str, str], ...]:
    """Build, its raw version and the GPU of every verdict on one, each once."""
    rows = Finding.objects.fresh().triggers().exclude(device_class=DeviceClass.CPU)
    named = rows.exclude(device_name="").order_by()
    columns = named.values_list("build", "build_raw", "device_name")
    return tuple(columns.distinct())


def build_matrix(query: QueryDict) -> Matrix:
    query_filter, generation = Filter.of(query), current_generation()
    standings = query_filter.standings()
    page = window(query.get("page", ""), standings.count(), PER_PAGE)
    records = records_at(list(standings.values_list("pk", flat=True)[page.rows]))
    tested = dict(TestedBuild.objects.values_list("slug", "raw"))
    every = every_column(tested, query_filter.device, generation)
    triggers = [row for record in records for row in record.findings.all()]
    columns = [item for item in every if item.slug in query_filter.builds] or every
    slugs = {column.slug for column in columns}
    every_row = matrix_rows(records, columns, query_filter)
    return Matrix(
        filter=query_filter,
        columns=columns,
        every_column=every,
        tested=frozenset(map(release_of, tested.values())),
        rows=[row for row in every_row if query_filter.shows(row)],
        models=[row for row in triggers if row.is_model and row.build in slugs],
        unrun_models=[row for row in records if is_unrun_model(row, triggers)],
        unrunnable=[record for record in records if not record.repros.all()],
        components=components(),
        window=page,
    )


def components() -> list[str]:
    """Of all published records, by name."""
    every = (facets["component"] for facets in every_record().values())
    return sorted({name for names in every for name in names})


def records_at(ids: list[str]) -> list[Record]:
    """These records by id, with their repros and fresh verdicts."""
    triggers = Finding.objects.fresh().triggers().only("record", *SHOWN)
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


def matrix_rows(
    records: list[Record], columns: list[Column], asked: Filter
) -> list[MatrixRow]:
    """One row per repro of the bug itself and device that was run or could be."""
    rows = []
    moved = {(pk, asked.device) for pk in asked.moved().values_list("pk", flat=True)}
    for record in records:
        for key, by_build in sorted(verdicts_by_build(record, moved).items()):
            cells = [by_build.get(column.slug) for column in columns]
            squares = row_squares(cells)
            spans = fold(columns, squares)
            rows.append(MatrixRow(record, *key, cells, squares, spans))
    return rows


def verdicts_by_build(
    record: Record, moved: set[tuple[int, str]]
) -> dict[RowKey, dict[str, Finding]]:
    """Each row's verdicts by build, of the bug itself; `moved`: repro, other device.

    A GPU repro on a processor says nothing, so it has no row of its own.
    """
    repros = [repro for repro in record.repros.all() if not repro.is_model]
    own = {(repro.name, repro.device) for repro in repros}
    own |= {(r.name, device) for r in repros for pk, device in moved if pk == r.pk}
    by_row: dict[RowKey, dict[str, Finding]] = defaultdict(dict)
    for row in record.findings.all():
        if row.is_fresh_verdict and not row.is_model:
            by_row[row.repro, row.device_class, gpu_of(row)][row.build] = row
    for name, device in own - {key[:2] for key in by_row}:
        by_row[name, device, ""] = {}
    names = {repro.name for repro in repros}
    return {
        key: by_build
        for key, by_build in by_row.items()
        if key[:2] in own
        or key[0] not in names
        or any(map(is_judged, by_build.values()))
    }


def gpu_of(row: Finding) -> str:
    return row.device_name if row.device_class != DeviceClass.CPU else ""


def is_judged(row: Finding) -> bool:
    return row.verdict in JUDGED
