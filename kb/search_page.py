"""The search page: records by words, or straight to the record an id names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kb import search
from kb.languages import current_lang
from kb.models import Record
from kb.search import Hit

MAX_QUERY = 400
RECORD_ID = re.compile(r"NAN-?(\d{1,4})", re.IGNORECASE)


@dataclass(frozen=True)
class SearchPage:
    query: str
    status: int = 200
    too_long: bool = False
    hits: list[Hit] = field(default_factory=list)
    target: Record | None = None


def build(query: str) -> SearchPage:
    query = query.replace("\x00", " ").strip()
    if len(query) > MAX_QUERY:
        return SearchPage(query[:MAX_QUERY], status=400, too_long=True)
    named = RECORD_ID.fullmatch(query)
    if named:
        key = f"NAN-{int(named[1]):04d}"
        target = Record.objects.addressable().filter(id=key).first()
        if target:
            return SearchPage(query, target=target)
    hits = search.find(query, current_lang()) if query else []
    return SearchPage(query, hits=hits)
