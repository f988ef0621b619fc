"""Open bugs by release, and where verdicts turn on one."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from django.db.models import QuerySet

from kb.models import Flip, Standing
from kb.releases.sides import Side, releases, tested
from kb.releases.verdicts import answers_of, records_of
from kb.search.index.generation import Generation


class Point(NamedTuple):
    """Of a release: records whose bug was reproduced, of those with a verdict."""

    release: str
    bad: int
    judged: int


@lru_cache(maxsize=2)
def curve(generation: Generation) -> tuple[Point, ...]:
    """Every release that was tested, oldest first."""
    visible = set(Standing.objects.values_list("pk", flat=True))
    found = []
    for name, side in releases(tested()).items():
        answers = answers_of(generation, side.builds)
        bad = visible.intersection(records_of(answers.bad | answers.differs))
        judged = visible.intersection(records_of(answers.judged))
        found.append(Point(name, len(bad), len(judged)))
    return tuple(found)


def turning_in(side: Side) -> QuerySet[Flip]:
    """Where a verdict turns on this release, against the build judged before it."""
    rows = Flip.objects.filter(build__in=side.builds)
    return rows.exclude(before__in=side.builds)
