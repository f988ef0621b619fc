"""Sweeps of a record as maps: a picture, a table, and a sentence: where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kb.choices import PARAMETERS, DeviceClass, Verdict
from kb.languages import current_lang
from kb.models import Record
from kb.records import conditions
from portable import harness
from runner.evidence import executed
from runner.models import Run, Sweep
from runner.pages.sweeps import picture
from runner.pages.sweeps.picture import Picture
from runner.sweeps import sentences
from runner.sweeps.boundary import boundary_of, is_number
from runner.sweeps.exchange import merged

TOLD = (Verdict.BUG_PRESENT, Verdict.BUG_ABSENT)


@dataclass(frozen=True)
class Row:
    """A cell in the table: its values, its badge's parts."""

    values: list[str]
    verdict: str
    hits: int
    trials: int
    reason: str


@dataclass(frozen=True)
class Proof:
    """A precondition held against the cells: those with the bug have to meet it."""

    text: dict[str, str]
    where: str
    cells: int
    against: int

    @property
    def holds(self) -> int:
        return self.cells - self.against


@dataclass(frozen=True)
class SweepMap:
    """Merged sweeps of the same parameters of one repro on one build."""

    sweep: Sweep
    names: list[str]
    sentence: str
    fidelity: str
    picture: Picture
    table: list[Row]
    proofs: list[Proof]

    @property
    def labels(self) -> list[str]:
        """As the form has them, with the name in the rule: "features (dim)"."""
        words = [(name, str(PARAMETERS.get(name, name))) for name in self.names]
        return [said if said == name else f"{said} ({name})" for name, said in words]

    @property
    def is_without_bug(self) -> bool:
        return all(row.verdict != Verdict.BUG_PRESENT for row in self.table)

    @property
    def directions(self) -> str:
        """Which parameter lies across, and which goes down."""
        marks = zip(self.names, "→↓", strict=False)
        return " · ".join(f"{name} {mark}" for name, mark in marks)


def of_record(record: Record, torch: str = "") -> list[SweepMap]:
    """Those of the repros as they are now: that show the bug, of the page's build."""
    now = {repro.name: repro for repro in record.repros.all()}
    rows = Sweep.objects.filter(
        record=record,
        state=Run.State.FINISHED,
        protocol=harness.PROTOCOL,
    )
    found = [
        row
        for row in rows.exclude(digest="").select_related("build")
        if executed.holds(row.same["repro"], now.get(row.repro_name))
    ]
    found.sort(key=lambda row: (row.is_sent, row.build_slug != torch, *question(row)))
    drawn = [
        map_of(record, list(alike)) for _key, alike in groupby(found, key=question)
    ]
    return sorted(drawn, key=lambda one: (one.sweep.is_sent, one.is_without_bug))


def question(sweep: Sweep) -> tuple[str, ...]:
    """What sweeps that are one map have alike: what was sent is a map of its own."""
    sender = (sweep.origin, sweep.raw) if sweep.is_sent else ()
    gpu = sweep.same["device"]["name"] if sweep.device == DeviceClass.CUDA else ""
    own = (sweep.build_slug, sweep.repro_name, sweep.device, str(gpu))
    return *own, *sender, *sorted(sweep.names)


def map_of(record: Record, sweeps: list[Sweep]) -> SweepMap:
    newest = max(sweeps, key=lambda row: row.started_at or row.created_at)
    cells = [
        {**cell, "at": {name: cell["at"][name] for name in newest.names}}
        for cell in merged(sweeps)
    ]
    across, down = sides(newest.names, cells)
    return SweepMap(
        sweep=newest,
        names=[name for name in (across, down) if name],
        sentence=sentences.sentence(boundary_of(cells), current_lang()),
        fidelity=newest.same["repro"]["fidelity"],
        table=[row_of(cell) for cell in ordered(cells)],
        proofs=list(proofs_of(record, newest.names, cells)),
        picture=picture.draw(across, down, cells),
    )


def proofs_of(
    record: Record, names: Sequence[str], cells: Sequence[dict[str, Any]]
) -> Iterator[Proof]:
    """Preconditions about the swept parameters; none where no cell shows the bug."""
    judged = [cell for cell in cells if cell["verdict"] in TOLD]
    bugs = [cell for cell in judged if cell["verdict"] == Verdict.BUG_PRESENT]
    for item in record.preconditions:
        wanted = conditions.parse(item["where"]) if item.get("where") else ()
        if bugs and wanted and {term.name for term in wanted} <= set(names):
            against = sum(not conditions.holds(wanted, cell["at"]) for cell in bugs)
            where = sentences.rule((wanted,), current_lang())
            yield Proof(item["text"], where, len(judged), against)


def sides(names: Sequence[str], cells: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """The parameter of the columns and that of the rows; numbers lie across."""
    if len(names) == 1:
        return names[0], ""

    def width(name: str) -> tuple[bool, int]:
        values = {cell["at"][name] for cell in cells}
        return all(map(is_number, values)), len(values)

    across, down = sorted(names, key=width, reverse=True)
    return across, down


def ordered(cells: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """By the last parameter, then by the first; words as they were asked for."""
    found = list(cells)
    for name in found[0]["at"] if found else ():
        found = in_order_of(name, found)
    return found


def in_order_of(name: str, cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    known = picture.values_of(name, cells)
    return sorted(cells, key=lambda cell: known.index(cell["at"][name]))


def row_of(cell: dict[str, Any]) -> Row:
    values = [harness.shown_value(value) for value in cell["at"].values()]
    hits, reason = cell["hits"] or 0, cell["reason"] or ""
    return Row(values, cell["verdict"], hits, cell["trials"], reason)
