"""Which steps of a log an answer and its picture show."""

from __future__ import annotations

import sys
from typing import Any

from kb.search.reading.figures import Figures

MOST = 80


def figures_document(figures: Figures) -> dict[str, Any]:
    """Each series as [line, value]; a value that is not finite is a text."""
    lines = shown_lines(figures)
    series = {
        kind: [
            [p.line, p.value if p.is_finite else str(p.value)]
            for p in points
            if p.line in lines
        ]
        for kind, points in figures.series.items()
    }
    first = figures.first_bad
    return {
        "series": series,
        "first_bad": first and {"metric": first[0], "line": first[1].line},
        "finite_before": None
        if first is None or figures.is_cut
        else figures.finite_before(first[0]),
    }


def shown_lines(figures: Figures) -> range:
    """Lines of at most MOST steps: around the first bad one, else the last."""
    points = max(figures.series.values(), key=len, default=[])
    if len(points) <= MOST:
        return range(sys.maxsize)
    end, first = len(points), figures.first_bad
    if first:
        before = sum(point.line <= first[1].line for point in points)
        end = max(MOST, min(end, before + MOST // 4))
    return range(points[end - MOST].line, points[end - 1].line + 1)
