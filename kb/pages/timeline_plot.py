"""A timeline as coordinates of an SVG: documented above the axis, observed below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext_lazy

from kb.choices import FIX_KINDS
from kb.findings.timeline import Band, Mark, Observation, Timeline

WIDTH = 1000
# Right of the axis there is room for the words of its last mark.
LEFT, RIGHT = 132, 852
# The widest step: two versions are not a page apart.
MAX_STEP = 168.0
LABEL_ROW = 18
FIRST_LABEL = 16
BAND_GAP = 14
AXIS_GAP = 16
LANE = 26
# Of a 12 px sans letter, and of a Chinese one, for labels that must not touch.
LETTER, WIDE_LETTER = 6.6, 12.4
LABEL_GAP = 14.0
DISAGREE = 44
WORDS = {
    "introduced": gettext_lazy("introduced"),
    "last_affected": gettext_lazy("last affected"),
    "end": gettext_lazy("end of the range"),
    "affected": gettext_lazy("listed as affected"),
    "not_affected": gettext_lazy("listed as not affected"),
}


@dataclass(frozen=True)
class Label:
    """A documented mark: its words at (x, y), its stem down to the axis."""

    x: float
    y: int
    text: str
    is_fix: bool


@dataclass(frozen=True)
class Bar:
    x: float
    width: float
    open_end: bool


@dataclass(frozen=True)
class Tick:
    x: float
    label: str


@dataclass(frozen=True)
class PlottedObservation:
    """An observation in its lane."""

    x: float
    y: int
    seen: Observation


@dataclass(frozen=True)
class Lane:
    device: str
    y: int


@dataclass(frozen=True)
class TimelinePlot:
    height: int
    axis_y: int
    band_y: int
    end_x: float
    labels: list[Label]
    bars: list[Bar]
    ticks: list[Tick]
    lanes: list[Lane]
    shown: list[PlottedObservation]


def draw(axis: Timeline) -> TimelinePlot:
    """Places of everything on the axis; one user unit is one CSS pixel at 1,000 px."""
    step = min(MAX_STEP, (RIGHT - LEFT) / max(1, len(axis.points)))
    xs = [LEFT + (number + 0.5) * step for number in range(len(axis.points))]
    end_x = LEFT + len(xs) * step
    labels = labels_of(axis, xs)
    rows = max((label.y for label in labels), default=FIRST_LABEL)
    band_y = rows + BAND_GAP
    axis_y = band_y + AXIS_GAP
    lanes = [
        Lane(device, axis_y + 2 * LABEL_ROW + 8 + number * LANE)
        for number, device in enumerate(axis.devices)
    ]
    at = {lane.device: lane.y for lane in lanes}
    return TimelinePlot(
        height=axis_y + LABEL_ROW + 14 + LANE * len(lanes),
        axis_y=axis_y,
        band_y=band_y,
        end_x=end_x,
        labels=labels,
        bars=[bar_of(band, xs, end_x) for band in axis.bands],
        ticks=[Tick(x, point.label) for x, point in zip(xs, axis.points, strict=True)],
        lanes=lanes,
        shown=[
            row
            for x, point in zip(xs, axis.points, strict=True)
            for row in shown_at(x, point.observed, at)
        ],
    )


def distinct(observed: list[Observation]) -> list[Observation]:
    """The newest observation of each verdict: builds of a version share its place."""
    newest: dict[tuple[str, str], Observation] = {}
    for observation in sorted(observed, key=lambda row: row.cell.observed_at):
        newest[observation.cell.device_class, observation.cell.verdict] = observation
    return list(newest.values())


def shown_at(
    x: float, observed: list[Observation], lanes: dict[str, int]
) -> Iterator[PlottedObservation]:
    """Builds of one version that disagree stand beside each other."""
    counts: Counter[str] = Counter()
    for observation in distinct(observed):
        device = observation.cell.device_class
        yield PlottedObservation(
            x + DISAGREE * counts[device], lanes[device], observation
        )
        counts[device] += 1


def labels_of(axis: Timeline, xs: list[float]) -> list[Label]:
    """Every mark's words, to the right of its stem, none across another's.

    From the right: a label that would reach over later ones goes above them.
    """
    placed: list[tuple[float, int, Mark]] = []
    for x, point in reversed(list(zip(xs, axis.points, strict=True))):
        for mark in point.marks:
            end = x + width_of(mark_words(mark.kind)) + LABEL_GAP
            below = [row for left, row, _mark in placed if left < end]
            placed.append((x, max(below, default=-1) + 1, mark))
    highest = max((row for _x, row, _mark in placed), default=0)
    return [
        Label(
            x,
            FIRST_LABEL + (highest - row) * LABEL_ROW,
            mark_words(mark.kind),
            is_fix(mark),
        )
        for x, row, mark in placed
    ]


def width_of(text: str) -> float:
    return sum(WIDE_LETTER if ord(letter) > 0x2E80 else LETTER for letter in text)


def is_fix(mark: Mark) -> bool:
    from_range = ("introduced", "last_affected", "end", "affected", "not_affected")
    return mark.kind not in from_range


def bar_of(band: Band, xs: list[float], end_x: float) -> Bar:
    first = LEFT if band.first is None else xs[band.first]
    last = end_x if band.last is None else xs[band.last]
    return Bar(first, max(3.0, last - first), open_end=band.last is None)


def mark_words(kind: str) -> str:
    """A fix is called by its kind, never just fixed."""
    return str(FIX_KINDS.get(kind) or WORDS[kind])
