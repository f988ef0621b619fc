"""The cells of a sweep as a picture: one square each, in bands that fit a phone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kb import badges
from kb.choices import Verdict
from kb.languages import current_lang
from portable import harness
from runner.sweeps.boundary import is_number

SIDE = 20
TEXT_PX = 8
GAP = 6
# Of a square's top: where the text in it, or beside it, stands.
BASELINE = SIDE // 2 + 5
# As many columns as fit a phone of 360 px; then the axis goes on below.
BAND_COLUMNS = 12
LOOKS = {
    Verdict.BUG_PRESENT: ("bug", "✖"),
    Verdict.BUG_ABSENT: ("clean", "✔"),
    Verdict.NOT_APPLICABLE: ("not", "∅"),
}
FAILED = ("failed", "▲")


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
        return self.x + SIDE // 2, self.y + BASELINE


@dataclass(frozen=True)
class Label:
    x: int
    y: int
    text: str


@dataclass(frozen=True)
class Picture:
    """All lengths are px, from the upper left corner."""

    squares: list[Square]
    columns: list[Label]
    rows: list[Label]
    width: int
    height: int


@dataclass(frozen=True)
class Bands:
    """Columns beside each other, and what is left of them under them."""

    left: int
    rows: int
    columns: int

    def top(self, band: int) -> int:
        """Of the band's first row of squares; the heads stand above it."""
        return SIDE + band * ((self.rows + 1) * SIDE + GAP)

    def corner(self, column: int, row: int) -> tuple[int, int]:
        band, at = divmod(column, self.columns)
        return self.left + at * SIDE, self.top(band) + row * SIDE


def draw(across: str, down: str, cells: Sequence[dict[str, Any]]) -> Picture:
    """`down` is "" where one parameter was swept."""
    columns = values_of(across, cells)
    rows = values_of(down, cells) if down else []
    heads, sides = (list(map(harness.shown_value, some)) for some in (columns, rows))
    # The first head and the last stand over the middle of their squares.
    beside = max(1, (widest(heads) - SIDE) // 2)
    bands = Bands(
        left=max(beside, widest(sides) + GAP if sides else 0),
        rows=max(1, len(rows)),
        columns=band_columns(len(columns)),
    )
    count = -(-len(columns) // bands.columns)
    return Picture(
        squares=list(squares_of(cells, columns, rows, (across, down), bands)),
        columns=list(spaced(heads, bands)),
        rows=[
            Label(bands.left - GAP, bands.top(band) + at * SIDE + BASELINE, text)
            for band in range(count)
            for at, text in enumerate(sides)
        ],
        width=bands.left + bands.columns * SIDE + beside,
        height=bands.top(count) - SIDE - GAP + 1,
    )


def widest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0) * TEXT_PX


def band_columns(columns: int) -> int:
    """Columns of a band, where as few bands as possible are as long as each other."""
    bands = -(-columns // BAND_COLUMNS)
    return -(-columns // bands)


def squares_of(
    cells: Iterable[dict[str, Any]],
    columns: Sequence[Any],
    rows: Sequence[Any],
    names: tuple[str, str],
    bands: Bands,
) -> Iterator[Square]:
    across, down = names
    for cell in cells:
        row = rows.index(cell["at"][down]) if down else 0
        yield square(bands.corner(columns.index(cell["at"][across]), row), cell)


def spaced(heads: Sequence[str], bands: Bands) -> Iterator[Label]:
    """Of each band as many heads as have room beside each other."""
    every = -(-(widest(heads) + GAP // 2) // SIDE)
    for column, text in enumerate(heads):
        if column % bands.columns % every == 0:
            x, y = bands.corner(column, 0)
            yield Label(x + SIDE // 2, y - GAP, text)


def square(corner: tuple[int, int], cell: dict[str, Any]) -> Square:
    look, sign = LOOKS.get(cell["verdict"], FAILED)
    values = ", ".join(
        f"{name} = {harness.shown_value(value)}" for name, value in cell["at"].items()
    )
    words = badges.of_result(cell, "", current_lang())
    return Square(*corner, look, sign, f"{values}: {words}")


def values_of(name: str, cells: Iterable[dict[str, Any]]) -> list[Any]:
    """In order where they are numbers, else as they were asked for."""
    values = list(dict.fromkeys(cell["at"][name] for cell in cells))
    return sorted(values) if all(map(is_number, values)) else values
