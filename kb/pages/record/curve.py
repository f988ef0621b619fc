"""The picture of a record's curve: two series over training steps, drawn by hand.

What is no number is a marked gap and never a point.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from kb.models import Finding, Record
from kb.records.curves import LOG, SIDES

WIDTH, HEIGHT = 460, 170
LEFT, RIGHT, TOP, FOOT = 62, 452, 10, 148
ROWS = 8
Json = dict[str, Any]
Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """One side: its strokes between gaps, and the gap that it ends in."""

    side: str
    strokes: list[str]
    # Where a number is followed by none, and from there on to where.
    ends: Point | None
    gap: tuple[float, float, str] | None


@dataclass(frozen=True)
class Curve:
    lines: list[Line]
    # (y, label) of the lowest and the highest value.
    ticks: list[tuple[float, str]]
    rows: list[tuple[int, str, str]]
    steps: int
    is_log: bool
    said: str
    # The digest of its run where this site has that, as evidence of a repro; else "".
    evidence: str


def curve_of(record: Record, findings: Iterable[Finding]) -> Curve | None:
    if not record.curve:
        return None
    digest = record.curve["digest"]
    kept = any(row.evidence == digest for row in findings)
    steps: Json = record.curve["steps"]
    count = len(steps[SIDES[0]])
    is_log = record.curve["scale"] == LOG
    drawn = [one for side in SIDES for one in steps[side] if not isinstance(one, str)]
    low, high = min(drawn), max(drawn)
    if not is_log:
        low = min(low, 0.0)

    def y_of(value: float) -> float:
        ends = [math.log(one) if is_log else one for one in (low, value, high)]
        share = (ends[1] - ends[0]) / (ends[2] - ends[0] or 1)
        return round(FOOT - (FOOT - TOP) * share, 1)

    rows = rows_of(steps, count)
    return Curve(
        lines=[line_of(side, steps[side], y_of) for side in SIDES],
        ticks=[(y_of(one), number(one)) for one in (low, high)],
        rows=rows,
        steps=count,
        is_log=is_log,
        said=said(rows),
        evidence=digest if kept else "",
    )


def x_of(at: int, count: int) -> float:
    return round(LEFT + (RIGHT - LEFT) * at / (count - 1), 1)


def line_of(side: str, values: list[float | str], y_of: Any) -> Line:
    """`y_of`: the height of a number."""
    strokes: list[list[Point]] = [[]]
    for at, value in enumerate(values):
        if isinstance(value, str):
            strokes.append([])
        else:
            strokes[-1].append((x_of(at, len(values)), y_of(value)))
    odd = [at for at, value in enumerate(values) if isinstance(value, str)]
    drawn = [stroke for stroke in strokes if stroke]
    return Line(
        side=side,
        strokes=[" ".join(f"{x},{y}" for x, y in stroke) for stroke in drawn],
        ends=drawn[-1][-1] if odd and drawn else None,
        gap=gap_of(odd, values),
    )


def gap_of(odd: list[int], values: list[Any]) -> tuple[float, float, str] | None:
    """Left edge, width and the word of a gap that lasts to the end."""
    if not odd or len(values) - odd[0] != len(odd):
        return None
    left = x_of(odd[0], len(values))
    words = dict.fromkeys(values[at] for at in odd)
    return (
        left,
        round(RIGHT - left, 1),
        _("%(words)s from step %(step)d on")
        % {
            "words": ", ".join("NaN" if word == "nan" else word for word in words),
            "step": odd[0] + 1,
        },
    )


def rows_of(steps: Json, count: int) -> list[tuple[int, str, str]]:
    """Some steps, the first and the last among them: step, with the bug, without."""
    places = {round(at * (count - 1) / (ROWS - 1)) for at in range(ROWS)}
    odd = [at for at in range(count) if isinstance(steps[SIDES[0]][at], str)]
    places |= set(odd[:1])
    bug, right = ([number(value) for value in steps[side]] for side in SIDES)
    return [(at + 1, bug[at], right[at]) for at in sorted(places)]


def number(value: float | str) -> str:
    """Three digits; two beside a power of ten, as 9.5e-12."""
    if isinstance(value, str):
        return value
    short = f"{value:.3g}"
    return short if "e" not in short else f"{value:.1e}".replace("e+", "e")


def said(rows: list[tuple[int, str, str]]) -> str:
    """The curve in a sentence, for who does not see it."""
    part = _("step %(step)d: %(trigger)s with the bug, %(control)s without")
    parts = [
        part % {"step": step, "trigger": trigger, "control": control}
        for step, trigger, control in rows
    ]
    return "; ".join(parts)
