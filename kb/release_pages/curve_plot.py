"""Open bugs by release as coordinates of an SVG. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kb.releases.release import Point

WIDTH, HEIGHT = 1000, 230
LEFT, RIGHT, TOP, BOTTOM = 36, 880, 14, 186
LABEL_Y = BOTTOM + 20
# Releases whose names fit side by side.
MOST_LABELS = 18
TICKS = 4
LABEL_GAP = 16.0


@dataclass(frozen=True)
class Place:
    x: float
    bad_y: float
    point: Point
    label: str
    is_this: bool


@dataclass(frozen=True)
class Tick:
    y: float
    count: int


@dataclass(frozen=True)
class CurvePlot:
    """`bad`, `judged`: the points of two lines; their names stand at these heights."""

    places: list[Place]
    ticks: list[Tick]
    bad: str
    judged: str
    bad_y: float
    judged_y: float


def draw(points: Sequence[Point], this: str = "") -> CurvePlot | None:
    """None where there is nothing that a line could join."""
    if len(points) < 2:
        return None
    top, step = scale(max(point.judged for point in points))
    across = (RIGHT - LEFT) / len(points)
    xs = [LEFT + (at + 0.5) * across for at in range(len(points))]
    every = -(-len(points) // MOST_LABELS)
    places = [
        Place(
            x=x,
            bad_y=height(point.bad, top),
            point=point,
            # Counted from the newest, which is never left out.
            label=point.release if (len(points) - 1 - at) % every == 0 else "",
            is_this=point.release == this,
        )
        for at, (x, point) in enumerate(zip(xs, points, strict=True))
    ]
    bad_y, judged_y = places[-1].bad_y, height(points[-1].judged, top)
    return CurvePlot(
        places=places,
        ticks=[Tick(height(count, top), count) for count in range(0, top + 1, step)],
        bad=line((place.x, place.bad_y) for place in places),
        judged=line(
            (x, height(point.judged, top)) for x, point in zip(xs, points, strict=True)
        ),
        bad_y=max(bad_y, judged_y + LABEL_GAP),
        judged_y=judged_y,
    )


def scale(most: int) -> tuple[int, int]:
    """A round top that holds `most`, and the step of its ticks."""
    step = 1
    while step * TICKS < most:
        # 1, 2, 5, 10, 20, 50 …
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    return step * max(1, -(-most // step)), step


def height(count: int, top: int) -> float:
    return BOTTOM - (BOTTOM - TOP) * count / top


def line(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
