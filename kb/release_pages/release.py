"""The page of one release, and the list of all of them."""

from __future__ import annotations

from dataclasses import dataclass

from kb.release_pages import compare, curve_plot
from kb.release_pages.curve_plot import CurvePlot
from kb.releases import release, sides
from kb.releases.release import Point, Release
from kb.search.index.generation import current_generation


@dataclass(frozen=True)
class ReleasePage:
    release: Release
    plot: CurvePlot | None

    @property
    def here(self) -> Point:
        """How many bugs are open on it."""
        name = self.release.side.name
        return next(point for point in self.release.curve if point.release == name)

    @property
    def newest_first(self) -> list[Point]:
        return list(reversed(self.release.curve))


@dataclass(frozen=True)
class ReleaseList:
    points: tuple[Point, ...]
    plot: CurvePlot | None
    choices: list[str]

    @property
    def newest(self) -> tuple[str, str]:
        return compare.newest_two(self.choices)

    @property
    def newest_first(self) -> list[Point]:
        return list(reversed(self.points))


def build(name: str) -> ReleasePage | str | None:
    """The page; its name where the address writes it otherwise; None of none."""
    found = release.find(name)
    if found:
        return ReleasePage(found, curve_plot.draw(found.curve, this=name))
    side = sides.find(name)
    return side.name if side and side.is_release and side.builds else None


def every() -> ReleaseList:
    points = release.curve(current_generation())
    return ReleaseList(points, curve_plot.draw(points), compare.choices())
