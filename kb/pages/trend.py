"""A small picture of figures over steps: loss, norm of the gradients, loss scale.

NaN is a reversed bar off the scale, as the log has it; a printed 0.0 beside a NaN norm
is a hollow mark that is not joined to the curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from kb.search.reading.figures import LOSS, NORM, SHOWN

WIDTH, LEFT, RIGHT = 620, 96, 604
ROW, HEIGHT, TOP = 78, 58, 28
# The width of a bar with room for its words, in the letters of a phone, too.
BAR = 96.0
Json = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One metric: its curve, its hollow marks, and the bar where it is no number."""

    name: str
    base: float
    line: str
    marks: list[tuple[float, float]]
    odd: list[tuple[float, float]]
    # Left, top, width and words, which stand before a bar that has no room for them.
    bar: tuple[float, float, float, str] | None
    span: str

    @property
    def is_narrow(self) -> bool:
        return self.bar is not None and self.bar[2] < BAR


@dataclass(frozen=True)
class Trend:
    rows: list[Row]
    height: int
    # Where the first value that is no number stands, and its line in the paste.
    at: float | None
    at_line: int | None

    @property
    def anchor(self) -> str:
        """Of the word above that place: at the right edge it ends there."""
        return "end" if (self.at or 0) > WIDTH - BAR else "middle"


def trend_of(figures: Json) -> Trend | None:
    """None where too little was pasted to see anything."""
    series = {kind: points for kind in SHOWN if (points := figures["series"].get(kind))}
    longest = max(map(len, series.values()), default=0)
    if longest < 3:
        return None
    first = figures["first_bad"]
    rows = [
        row_of(kind, points, at, longest, series)
        for at, (kind, points) in enumerate(series.items())
    ]
    place = place_of(first, series, longest) if first else None
    return Trend(rows, TOP + ROW * len(rows), place, first["line"] if first else None)


def x_of(at: int, n: int) -> float:
    return round(LEFT + (RIGHT - LEFT) * at / max(1, n - 1), 1)


def place_of(first: Json, series: Json, n: int) -> float | None:
    lines = [point[0] for point in series.get(first["metric"], [])]
    return x_of(lines.index(first["line"]), n) if first["line"] in lines else None


def row_of(kind: str, points: list[Any], at: int, n: int, series: Json) -> Row:
    base = TOP + ROW * at + HEIGHT
    norms = dict(series.get(NORM, []))
    is_odd = [
        kind == LOSS and value == 0 and isinstance(norms.get(line), str)
        for line, value in points
    ]
    finite = [
        (i, value)
        for i, (_line, value) in enumerate(points)
        if not isinstance(value, str) and not is_odd[i]
    ]
    values = [value for _i, value in finite]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    spot = [
        (x_of(i, n), round(base - 6 - (HEIGHT - 16) * share(value, low, high), 1))
        for i, value in finite
    ]
    bad = [i for i, (_line, value) in enumerate(points) if isinstance(value, str)]
    return Row(
        name=kind,
        base=base,
        line=" ".join(f"{x},{y}" for x, y in spot),
        marks=spot,
        odd=[(x_of(i, n), base) for i, odd in enumerate(is_odd) if odd],
        bar=bar_of(bad, points, n, base),
        span=f"{low:.3g} … {high:.3g}" if values else "",
    )


def share(value: float, low: float, high: float) -> float:
    """0 to 1 between the bounds; of a wide range by its logarithm."""
    if high == low:
        return 0.5
    if low > 0 and high / low > 100:
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def bar_of(
    bad: list[int], points: list[Any], n: int, base: float
) -> tuple[float, float, float, str] | None:
    if not bad:
        return None
    left = x_of(bad[0], n) - 6
    width = x_of(bad[-1], n) + 6 - left
    return (
        round(left, 1),
        base - 36,
        round(width, 1),
        f"{points[bad[0]][1]} × {len(bad)}",
    )
