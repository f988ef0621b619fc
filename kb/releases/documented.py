"""What records document of a build, read once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from kb.models import Record
from kb.versions.affected import Documented


@lru_cache(maxsize=1)
def facts_of_all(records: int) -> Mapping[str, Documented]:
    """Of every published record, by id. Cached: not to be modified.

    `records`: the part of the generation that changes with records.
    """
    rows = Record.objects.visible().order_by("pk")
    return {
        pk: Documented(*columns)
        for pk, *columns in rows.values_list("pk", *Documented._fields)
    }
