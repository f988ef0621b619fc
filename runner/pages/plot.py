"""Series that control, trigger and workaround observed, as points of SVGs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 368, 212
LEFT, RIGHT, TOP, BOTTOM = 44, 270, 20, 172
MIN_STEPS = 3
MAX_PLOTS = 4
LARGEST = 1e300
# Non-finite values are marked on a line of their own, above the scale.
NONFINITE_Y = 8.0
LABEL_GAP = 14.0


@dataclass(frozen=True)
class Line:
    """One check's series: its finite stretches, and where it was not a number."""

    name: str
    stretches: list[str]
    # Stretches of a single value, which a line would not show.
    dots: list[tuple[float, float]]
    nonfinite: list[float]
    label_y: float


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class End:
    """A series in words: its ends, and the first step without a finite value."""

    name: str
    first: str
    last: str
    lost_at: int | None


@dataclass(frozen=True)
class Plot:
    key: str
    steps: int
    lines: list[Line]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    ends: list[End]


def plots_of(checks: Sequence[dict[str, Any]]) -> list[Plot]:
    """Each quantity that control or trigger observed step by step, at most MAX_PLOTS.

    Of several trials the first; of the workarounds the first that observed it.
    """
    by_name: dict[str, dict[str, Any]] = {}
    for item in checks:
        by_name.setdefault(item["name"], item.get("observations") or {})
    both = [by_name.get("control", {}), by_name.get("trigger", {})]
    keys = [key for row in both for key, value in row.items() if is_series(value)]
    return [
        draw(key, series_of(key, by_name))
        for key in list(dict.fromkeys(keys))[:MAX_PLOTS]
    ]


def series_of(key: str, by_name: dict[str, dict[str, Any]]) -> dict[str, list[float]]:
    helped = (name for name in by_name if name.startswith("workaround_"))
    helper = next((n for n in helped if is_series(by_name[n].get(key))), "")
    roles = {"ctl": "control", "trg": "trigger", "wa": helper}
    return {
        role: [number(item) for item in by_name[name][key]]
        for role, name in roles.items()
        if is_series(by_name.get(name, {}).get(key))
    }


def is_series(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) >= MIN_STEPS
        and all(is_number(item) for item in value)
    )


def is_number(item: Any) -> bool:
    """Of what a float can hold and subtract; evidence from elsewhere may hold more."""
    if isinstance(item, dict):
        return item.get("$float") in ("nan", "inf", "-inf")
    is_number = isinstance(item, int | float) and not isinstance(item, bool)
    return is_number and abs(item) < LARGEST


def number(item: Any) -> float:
    return float(item["$float"] if isinstance(item, dict) else item)


def draw(
    key: str, series: dict[str, list[float]], at: Sequence[float] | None = None
) -> Plot:
    """`at`: the places of the values on the x axis; without it, steps from 1."""
    steps = max(len(values) for values in series.values())
    finite = [
        value for values in series.values() for value in values if math.isfinite(value)
    ]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    span = (high - low) or abs(high) or 1.0
    low, high = low - 0.06 * span, high + 0.06 * span

    places = list(at or range(1, steps + 1))
    width = (places[-1] - places[0]) or 1

    def x_of(step: int) -> float:
        return LEFT + (RIGHT - LEFT) * (places[step] - places[0]) / width

    def y_of(value: float) -> float:
        if not math.isfinite(value):
            return NONFINITE_Y
        return BOTTOM - (BOTTOM - TOP) * (value - low) / (high - low)

    def points(values: list[float]) -> list[tuple[float, float, bool]]:
        return [(x_of(n), y_of(v), math.isfinite(v)) for n, v in enumerate(values)]

    ticks = sorted({0, steps // 2, steps - 1})
    labels = spread({name: y_of(values[-1]) for name, values in series.items()})
    return Plot(
        key=key,
        steps=steps,
        lines=[
            line_of(name, points(values), labels[name])
            for name, values in series.items()
        ],
        x_ticks=[Tick(x_of(n), f"{places[n]:.4g}") for n in ticks],
        y_ticks=[Tick(y_of(value), text) for value, text in scale(low, high)],
        ends=[end_of(name, values) for name, values in series.items()],
    )


def line_of(name: str, points: list[tuple[float, float, bool]], label_y: float) -> Line:
    stretches: list[list[tuple[float, float]]] = [[]]
    for x, y, is_finite in points:
        if is_finite:
            stretches[-1].append((x, y))
        else:
            stretches.append([])
    return Line(
        name=name,
        stretches=[
            " ".join(f"{x:.1f},{y:.1f}" for x, y in stretch)
            for stretch in stretches
            if len(stretch) > 1
        ],
        dots=[stretch[0] for stretch in stretches if len(stretch) == 1],
        nonfinite=[x for x, _y, is_finite in points if not is_finite],
        label_y=label_y,
    )


def end_of(name: str, values: list[float]) -> End:
    lost = (n for n, value in enumerate(values, 1) if not math.isfinite(value))
    return End(name, f"{values[0]:.4g}", f"{values[-1]:.4g}", next(lost, None))


def spread(positions: dict[str, float]) -> dict[str, float]:
    """Label positions, top to bottom, at least LABEL_GAP apart, above the axis."""
    ordered = sorted(positions, key=lambda name: positions[name])
    placed: dict[str, float] = {}
    last = -math.inf
    for name in ordered:
        last = placed[name] = max(positions[name] + 4, last + LABEL_GAP)
    below = float(BOTTOM)
    for name in reversed(ordered):
        placed[name] = min(placed[name], below)
        below = placed[name] - LABEL_GAP
    return placed


def scale(low: float, high: float) -> list[tuple[float, str]]:
    """The marks of an axis, all with the decimals that their step needs."""
    steps = round_steps(low, high)
    places = max(0, -math.floor(math.log10(steps[1] - steps[0]) + 1e-9))
    if places > 4 or max(map(abs, steps)) >= 1e5:
        return [(value, f"{value:.3g}") for value in steps]
    return [(value, f"{value:.{places}f}") for value in steps]


def round_steps(low: float, high: float) -> list[float]:
    """Four to nine multiples of 1, 2 or 5 times a power of ten within the range."""
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(
        power * factor
        for factor in (1, 2, 5, 10)
        if (high - low) / (power * factor) <= 6
    )
    first, last = math.ceil(low / step), math.floor(high / step)
    return [number * step for number in range(first, last + 1)]
