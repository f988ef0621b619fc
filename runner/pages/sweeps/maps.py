"""Sweeps of a record as maps: one square a cell, and where it happens in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kb.choices import DeviceClass, Verdict
from kb.languages import current_lang
from kb.models import Record
from kb.records import conditions
from runner import harness
from runner.models import Run, Sweep
from runner.sweeps import sentences
from runner.sweeps.boundary import boundary_of, is_number
from runner.sweeps.exchange import merged
from runner.wording import verdicts

SIDE = 20
TEXT_PX = 8
GAP = 6
# Of one parameter: then the next row begins.
ROW_CELLS = 16
LOOKS = {
    Verdict.BUG_PRESENT: ("bug", "✖"),
    Verdict.BUG_ABSENT: ("clean", "✔"),
    Verdict.NOT_APPLICABLE: ("not", "∅"),
}
FAILED = ("failed", "▲")
TOLD = (Verdict.BUG_PRESENT, Verdict.BUG_ABSENT)


@dataclass(frozen=True)
class Square:
    """One cell: its corner, its sign, and what it says in words."""

    x: int
    y: int
    look: str
    sign: str
    text: str

    @property
    def middle(self) -> tuple[int, int]:
        return self.x + SIDE // 2, self.y + SIDE // 2 + 5


@dataclass(frozen=True)
class Label:
    x: int
    y: int
    text: str


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
    sweeps: int
    names: list[str]
    sentence: str
    fidelity: str
    squares: list[Square]
    columns: list[Label]
    rows: list[Label]
    width: int
    height: int
    table: list[Row]
    proofs: list[Proof]

    @property
    def directions(self) -> str:
        """Which parameter lies across, and which goes down."""
        marks = zip(self.names, "→↓", strict=False)
        return " · ".join(f"{name} {mark}" for name, mark in marks)


def of_record(record: Record, torch: str = "") -> list[SweepMap]:
    """Those of the repros as they are now, of the page's build first."""
    current = {(repro.name, repro.digest) for repro in record.repros.all()}
    rows = Sweep.objects.filter(
        record=record,
        state=Run.State.FINISHED,
        protocol=harness.PROTOCOL,
        withdrawn=False,
    )
    found = [
        row
        for row in rows.exclude(digest="").select_related("build")
        if (row.repro_name, row.repro_digest) in current
    ]
    found.sort(key=lambda row: (row.is_sent, row.build_id != torch, *question(row)))
    return [map_of(record, list(alike)) for _key, alike in groupby(found, key=question)]


def question(sweep: Sweep) -> tuple[str, ...]:
    """What sweeps that are one map have alike: what was sent is a map of its own."""
    sender = sweep.origin if sweep.is_sent else ""
    gpu = sweep.same["device"]["name"] if sweep.device == DeviceClass.CUDA else ""
    own = (sweep.build_id, sweep.repro_name, sweep.device, str(gpu), sender)
    return *own, *sorted(sweep.names)


def map_of(record: Record, sweeps: list[Sweep]) -> SweepMap:
    newest = max(sweeps, key=lambda row: row.started_at or row.created_at)
    cells = [
        {**cell, "at": {name: cell["at"][name] for name in newest.names}}
        for cell in merged(sweeps)
    ]
    across, down = sides(newest.names, cells)
    placed = place(across, down, cells)
    return SweepMap(
        sweep=newest,
        sweeps=len(sweeps),
        names=[name for name in (across, down) if name],
        sentence=sentences.sentence(boundary_of(cells), current_lang()),
        fidelity=newest.same["repro"]["fidelity"],
        table=[row_of(cell) for cell in ordered(cells)],
        proofs=list(proofs_of(record, newest.names, cells)),
        **placed,
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
    known = values_of(name, cells)
    return sorted(cells, key=lambda cell: known.index(cell["at"][name]))


def values_of(name: str, cells: Iterable[dict[str, Any]]) -> list[Any]:
    values = list(dict.fromkeys(cell["at"][name] for cell in cells))
    return sorted(values) if all(map(is_number, values)) else values


def place(across: str, down: str, cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Squares and labels in the picture, and its size."""
    columns = values_of(across, cells)
    if not down:
        return wrapped(across, columns, cells)
    rows = values_of(down, cells)
    left = max(len(harness.shown_value(value)) for value in rows) * TEXT_PX + GAP
    top = SIDE
    squares = [
        square(
            left + columns.index(cell["at"][across]) * SIDE,
            top + rows.index(cell["at"][down]) * SIDE,
            cell,
        )
        for cell in cells
    ]
    return {
        "squares": squares,
        "columns": spaced(columns, left),
        "rows": [
            row_label(left, top + n * SIDE, value) for n, value in enumerate(rows)
        ],
        "width": left + (len(columns) + 1) * SIDE,
        "height": top + len(rows) * SIDE + 1,
    }


def wrapped(
    name: str, values: list[Any], cells: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Of one parameter: line by line, each with its first value in front."""
    firsts = values[::ROW_CELLS]
    left = max(len(harness.shown_value(value)) for value in firsts) * TEXT_PX + GAP
    squares = []
    for cell in cells:
        down, across = divmod(values.index(cell["at"][name]), ROW_CELLS)
        squares.append(square(left + across * SIDE, down * SIDE, cell))
    return {
        "squares": squares,
        "columns": [],
        "rows": [row_label(left, n * SIDE, value) for n, value in enumerate(firsts)],
        "width": left + min(len(values), ROW_CELLS) * SIDE + 1,
        "height": len(firsts) * SIDE + 1,
    }


def row_label(left: int, y: int, value: Any) -> Label:
    return Label(left - GAP, y + SIDE // 2 + 5, harness.shown_value(value))


def spaced(values: Sequence[Any], left: int) -> list[Label]:
    """As many labels of columns as have room beside each other."""
    texts = [harness.shown_value(value) for value in values]
    every = -(-(max(map(len, texts)) * TEXT_PX + GAP) // SIDE)
    return [
        Label(left + n * SIDE + SIDE // 2, SIDE - GAP, text)
        for n, text in enumerate(texts)
        if n % every == 0
    ]


def square(x: int, y: int, cell: dict[str, Any]) -> Square:
    look, sign = LOOKS.get(cell["verdict"], FAILED)
    values = ", ".join(
        f"{name} = {harness.shown_value(value)}" for name, value in cell["at"].items()
    )
    words = verdicts.badge(
        cell["verdict"],
        cell["hits"] or 0,
        cell["trials"],
        "",
        current_lang(),
        cell["reason"] or "",
    )
    return Square(x, y, look, sign, f"{values}: {words}")


def row_of(cell: dict[str, Any]) -> Row:
    values = [harness.shown_value(value) for value in cell["at"].values()]
    hits, reason = cell["hits"] or 0, cell["reason"] or ""
    return Row(values, cell["verdict"], hits, cell["trials"], reason)
