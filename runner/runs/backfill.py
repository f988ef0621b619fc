"""Filling the matrix: every repro on every installed build that has no result yet."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kb.models import Finding, Record, Repro
from runner.models import Build, Run
from runner.runs import admission, submission
from runner.runs.refusals import REPRO_GONE, RunRefused

# Runs queued at once; an interrupted backfill leaves no more than these.
WINDOW = 50


@dataclass(frozen=True)
class Cell:
    """A repro on a build, as the matrix shows it."""

    repro: Repro
    build: Build

    def __str__(self) -> str:
        repro = self.repro
        return f"{repro.record_id} {repro.name} on {self.build.slug}.{repro.device}"


@dataclass
class Progress:
    """How many cells are done, and how they ended."""

    total: int
    done: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def note(self, word: str) -> None:
        self.done += 1
        self.counts[word] = self.counts.get(word, 0) + 1


@dataclass(frozen=True)
class Result:
    """How a cell ended: its run, or its refusal. `known`: the result was cached."""

    cell: Cell
    run: Run | None = None
    refused: RunRefused | None = None
    known: bool = False


def cells(
    records: Collection[str] = (), builds: Collection[str] = (), *, again: bool = False
) -> list[Cell]:
    """Cells without a fresh result, newest build first; with `again`, all cells.

    `records`, `builds`: only these ids and slugs.
    """
    listed = Record.objects.visible()
    listed = listed.filter(id__in=records) if records else listed
    tested = set() if again else tested_cells()
    return [
        Cell(repro, build)
        for build in admission.installed_builds()
        if not builds or build.slug in builds
        for record in listed.prefetch_related("repros")
        for repro in record.repros.all()
        if (record.id, repro.name, build.slug, repro.device) not in tested
    ]


def tested_cells() -> set[tuple[str, str, str, str]]:
    """Record, repro, build and device of every current result that stands."""
    rows = Finding.objects.fresh().triggers()
    return set(rows.values_list("record_id", "repro", "build", "device_class"))


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer SIGINT to the end of the block, so that every queued run is counted."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Filler:
    """Keeps at most `window` cells queued and reports each cell that ends."""

    def __init__(self, cells: list[Cell], *, again: bool, window: int) -> None:
        self.left = list(reversed(cells))
        self.again = again
        self.window = window
        self.active: dict[str, Cell] = {}

    @property
    def is_over(self) -> bool:
        return not self.left and not self.active

    def step(self) -> Iterator[Result]:
        """Submit cells up to the window; yields the cells that have ended."""
        yield from self.collect()
        while self.left and len(self.active) < self.window:
            with uninterrupted():
                ended = self.submit(self.left.pop())
            if ended:
                yield ended

    def submit(self, cell: Cell) -> Result | None:
        """Submit a cell; its result if it was refused or cached, else None."""
        repro = cell.repro
        priority = Run.Priority.REVERIFY if self.again else Run.Priority.MATRIX
        try:
            submitted = submission.submit(
                repro,
                cell.build,
                repro.device,
                repro.header.get("trials", 1),
                again=self.again,
                priority=priority,
            )
        except RunRefused as refusal:
            return Result(cell, refused=refusal)
        if submitted.run.is_over:
            return Result(cell, submitted.run, known=True)
        self.active[str(submitted.run.pk)] = cell
        return None

    def collect(self) -> Iterator[Result]:
        """Results of the active runs that have ended since the last call."""
        rows = Run.objects.filter(pk__in=self.active)
        kept = set(map(str, rows.values_list("pk", flat=True)))
        for key in self.active.keys() - kept:
            gone = REPRO_GONE.refusal("gone")
            yield Result(self.active.pop(key), refused=gone)
        over = rows.exclude(state__in=Run.ACTIVE)
        for run in over.order_by("finished_at"):
            yield Result(self.active.pop(str(run.pk)), run)
