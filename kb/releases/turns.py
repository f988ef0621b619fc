"""Which bugs arrive with a release and which leave: where verdicts turn on one."""

from __future__ import annotations

from typing import NamedTuple

from kb.models import Flip, Record, Standing
from kb.releases.sides import releases
from kb.versions.order import tested_builds


class Turns(NamedTuple):
    """Of a release: records whose bug is first seen on it, and no longer seen."""

    release: str
    arrived: tuple[Record, ...]
    left: tuple[Record, ...]


def of_releases() -> list[Turns]:
    """Every release that was tested, oldest first; each record once."""
    listed = Record.objects.filter(pk__in=Standing.objects.values("pk"))
    records = listed.only("slug", "title_en", "title_zh").in_bulk()
    found = []
    for name, side in releases(tested_builds()).items():
        # Not where builds of the release itself differ.
        turned = Flip.objects.filter(build__in=side.builds)
        turned = turned.exclude(before__in=side.builds)
        flips = [row for row in turned if row.record_id in records]
        arrived, left = (
            dict.fromkeys(row.record_id for row in flips if row.is_good == is_good)
            for is_good in (False, True)
        )
        rows = (tuple(records[pk] for pk in kind) for kind in (arrived, left))
        found.append(Turns(name, *rows))
    return found
