"""What records document of a build, read once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from kb.models import Record


@lru_cache(maxsize=1)
def facts_of_all(records: int) -> Mapping[str, Record]:
    """Of every published record, by id. Cached: not to be modified.

    `records`: the part of the generation that changes with records.
    """
    rows = Record.objects.visible().without_prose().order_by("pk")
    return {row.pk: row for row in rows}
