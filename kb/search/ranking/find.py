"""Finding records by the words of a query (`kb.lookup` finds them by a pasted log)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from django.utils.safestring import SafeString

from kb.models import Record
from kb.search.index.store import current_store, records_of
from kb.search.ranking.snippets import snippet
from kb.search.ranking.words import match_words
from kb.search.reading.query import Query, read_query

MAX_HITS = 50


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


def find(query: str, lang: str) -> list[Hit]:
    """The published records that best answer words in either language, best first."""
    read = read_query(query)
    store = current_store()
    matches = match_words(read, store)[:MAX_HITS]
    known = records_of(store, [match.document for match in matches])
    found = [
        (known[match.document][0], match.score)
        for match in matches
        if match.document in known
    ]
    return hits(found, read, lang)


def hits(found: list[tuple[str, float]], query: Query, lang: str) -> list[Hit]:
    """The records to show, each with its score and a snippet; hidden ones left out."""
    ids = [record for record, _score in found]
    rows = Record.objects.visible().defer("html").in_bulk(ids)
    return [
        Hit(rows[record], round(score, 2), query, lang)
        for record, score in found
        if record in rows
    ]
