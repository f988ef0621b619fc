"""A series that control, trigger and workaround observed, as points of an SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 368, 212
LEFT, RIGHT, TOP, BOTTOM = 44, 270, 14, 172
MIN_STEPS = 3
LABEL_GAP = 14.0


@dataclass(frozen=True)
class Line:
    css: str
    name: str
    points: str
    label_y: float


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Plot:
    key: str
    steps: int
    lines: list[Line]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    ends: list[tuple[str, str, str]]


def plot_of(checks: Sequence[dict[str, Any]]) -> Plot | None:
    """The first finite series that both control and trigger observed, or None."""
    by_name = {item["name"]: item.get("observations") or {} for item in checks}
    control, trigger = by_name.get("control", {}), by_name.get("trigger", {})
    key = next((key for key in control if both_series(control, trigger, key)), None)
    if key is None:
        return None
    series = {"ctl": control[key], "trg": trigger[key]}
    for name, observed in by_name.items():
        if name.startswith("workaround_") and is_series(observed.get(key)):
            series["wa"] = observed[key]
            break
    return draw(key, series)


def both_series(one: dict[str, Any], other: dict[str, Any], key: str) -> bool:
    return is_series(one[key]) and is_series(other.get(key))


def is_series(found: Any) -> bool:
    return (
        isinstance(found, list)
        and len(found) >= MIN_STEPS
        and all(
            isinstance(item, int | float)
            and not isinstance(item, bool)
            and math.isfinite(item)
            for item in found
        )
    )


def draw(key: str, series: dict[str, list[float]]) -> Plot:
    steps = max(len(values) for values in series.values())
    every = [value for values in series.values() for value in values]
    low, high = min(every), max(every)
    span = (high - low) or abs(high) or 1.0
    low, high = low - 0.06 * span, high + 0.06 * span

    def x_of(step: int) -> float:
        return LEFT + (RIGHT - LEFT) * step / max(1, steps - 1)

    def y_of(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (value - low) / (high - low)

    labels = spread({name: y_of(values[-1]) for name, values in series.items()})
    lines = [
        Line(
            css=name,
            name=name,
            points=" ".join(
                f"{x_of(step):.1f},{y_of(value):.1f}"
                for step, value in enumerate(values)
            ),
            label_y=labels[name],
        )
        for name, values in series.items()
    ]
    return Plot(
        key=key,
        steps=steps,
        lines=lines,
        x_ticks=[
            Tick(x_of(step), str(step + 1))
            for step in sorted({0, steps // 2, steps - 1})
        ],
        y_ticks=[Tick(y_of(value), text) for value, text in scale(low, high)],
        ends=[(name, f"{v[0]:.4g}", f"{v[-1]:.4g}") for name, v in series.items()],
    )


def spread(wanted: dict[str, float]) -> dict[str, float]:
    """Label positions, top to bottom, at least LABEL_GAP apart, above the axis."""
    ordered = sorted(wanted, key=lambda name: wanted[name])
    placed: dict[str, float] = {}
    last = -math.inf
    for name in ordered:
        last = placed[name] = max(wanted[name] + 4, last + LABEL_GAP)
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
