"""Records found by the words of a query (`kb.lookup` finds them by a pasted log)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from django.utils.safestring import SafeString

from kb.models import Record
from kb.search.ranking.snippets import snippet
from kb.search.reading.query import Query


@dataclass
class Hit:
    """A record found by words. `verdict`: on the build that a page is about."""

    record: Record
    score: float
    query: Query
    lang: str
    verdict: str = ""

    @cached_property
    def snippet(self) -> SafeString:
        """HTML with the words in <mark>; made for those hits that are shown."""
        return snippet(self.record, self.query, self.lang)


def hits(scores: list[tuple[str, float]], query: Query, lang: str) -> list[Hit]:
    """Hits for (record, score) pairs; records that are not published are left out."""
    ids = [record for record, _score in scores]
    rows = Record.objects.visible().defer("html").in_bulk(ids)
    return [
        Hit(rows[record], round(score, 2), query, lang)
        for record, score in scores
        if record in rows
    ]
