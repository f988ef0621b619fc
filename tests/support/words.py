"""The search by words as one call: what the page of results does with a query."""

from __future__ import annotations

from kb.search.index.inverted import current_index
from kb.search.ranking.listing import Hit, by_words, hits
from kb.search.reading.query import read_query

MAX_HITS = 50


def find(query: str, lang: str) -> list[Hit]:
    """The published records that best answer words in either language, best first."""
    terms = read_query(query)
    _facets, scores = by_words(terms, current_index())
    return hits(list(scores.items())[:MAX_HITS], terms, lang)
