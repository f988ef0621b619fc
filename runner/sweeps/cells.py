"""The cells of a sweep: which one is next, and the object that they make together.

The next cell follows from those that are done, so a sweep goes on where it was
interrupted, whoever goes on with it. Standard library and harness only: a kit carries
this file to where it goes on (runner.takeaway).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import Any

from portable import harness

SCHEMA = "doesitnan.sweep/1"
# Of a range within which the boundary is looked for: 2**20 lengths, or 6 digits.
MOST_HALVINGS = 20

Axis = dict[str, Any]
Cell = dict[str, Any]
Done = Mapping[tuple[Any, ...], str]


def sealed(same: Mapping[str, Any], **rest: Any) -> dict[str, Any]:
    """The object of a sweep: `same` is what all of its cells have alike."""
    axes = [{"name": name, **axis} for name, axis in rest.pop("axes").items()]
    return harness.sealed({"schema": SCHEMA, **same, **rest, "axes": axes})


def most_cells(axes: Mapping[str, Axis]) -> int:
    """So many at most: where a boundary is looked for, it may take fewer."""
    listed = math.prod(len(axis.get("values", "1")) for axis in axes.values())
    ranges = sum("between" in axis for axis in axes.values())
    return listed * (1, MOST_HALVINGS + 2, 2 * (MOST_HALVINGS + 2))[ranges]


def next_cell(axes: Mapping[str, Axis], done: Done) -> Cell | None:
    """The values of the next cell, or None once all are done.

    `done`: verdicts by the values, in the order of the axes.
    """
    names = list(axes)
    searched = [name for name in names if "between" in axes[name]]
    grid = [axes[name]["values"] for name in names if name not in searched]
    for values in product(*grid):
        at = dict(zip([n for n in names if n not in searched], values, strict=True))
        for found in next_within(axes, searched, at, done):
            return {name: found[name] for name in names}
    return None


def next_within(
    axes: Mapping[str, Axis], searched: Sequence[str], at: Cell, done: Done
) -> list[Cell]:
    """At most one cell with these values of the other parameter."""
    if not searched:
        return [] if key_of(axes, at) in done else [at]
    name, *others = searched
    # A second range keeps to its ends: one boundary at a time.
    for value in axes[others[0]]["between"] if others else [None]:
        here = at | ({others[0]: value} if others else {})
        seen = {
            dict(zip(axes, values, strict=True))[name]: verdict
            for values, verdict in done.items()
            if here.items() <= dict(zip(axes, values, strict=True)).items()
        }
        wanted = halved(axes[name]["between"], seen)
        if wanted is not None:
            return [here | {name: wanted}]
    return []


def halved(ends: Sequence[Any], seen: Mapping[Any, str]) -> Any:
    """The next value at which to look for a boundary; None where it is found.

    Both ends first, then the middle of neighbours with different verdicts.
    """
    for end in ends:
        if end not in seen:
            return end
    if len(seen) >= MOST_HALVINGS + 2:
        return None
    ordered = sorted(seen)
    for low, high in pairwise(ordered):
        if seen[low] != seen[high] and (value := middle(low, high)) is not None:
            return value
    return None


def middle(low: Any, high: Any) -> Any:
    """Between two values; None where they are next to each other."""
    if isinstance(low, int) and isinstance(high, int):
        return (low + high) // 2 if high - low > 1 else None
    if high - low <= 1e-3 * max(abs(low), abs(high)):
        return None
    # Of a range over many powers of ten the middle is that of its powers.
    between = math.sqrt(low * high) if low > 0 and high / low > 4 else (low + high) / 2
    rounded = float(f"{between:.4g}")
    return rounded if low < rounded < high else None


def key_of(axes: Mapping[str, Axis], at: Cell) -> tuple[Any, ...]:
    return tuple(at[name] for name in axes)
