"""A search with its filters and its order, as the page and the API answer it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from django.utils.safestring import SafeString

from kb.models import Record
from kb.search.index.inverted import Facets, Index, current_index, every_record
from kb.search.ranking.filters import Verdicts, narrow
from kb.search.ranking.snippets import snippet
from kb.search.ranking.words import match_words
from kb.search.reading.query import Query, read_query
from kb.search.reading.symptom_facets import says_nan

NAN = "nan_"
# What relevance is left with where the query speaks of NaN and the record does not.
WITHOUT_NAN = 0.9
SORTS = ("relevance", "newest", "id")


@dataclass(frozen=True)
class Listing:
    """`found`: (record, score) in the order asked for; `total`: before filters.

    `unknown`: words that no record has.
    """

    query: Query
    found: list[tuple[str, float]]
    total: int
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def listing(
    text: str, chosen: Mapping[str, list[str]], verdicts: Verdicts, sort: str
) -> Listing:
    """Every published record that has the words; all of them for no words."""
    query = read_query(text)
    index = current_index()
    if text.strip():
        matching, scores = by_words(query, index)
    else:
        matching, scores = list(every_record().items()), {}
    narrowed = narrow(matching, verdicts, chosen)
    ordered = in_order(narrowed.records, sort, bool(scores))
    return Listing(
        query,
        [(record, scores.get(record, 0.0)) for record in ordered],
        len(matching),
        narrowed.counts,
        unknown_words(query, index),
    )


def by_words(
    query: Query, index: Index
) -> tuple[list[tuple[str, Facets]], dict[str, float]]:
    """Records with their facets, best first, and the score of each."""
    matches = match_words(query, index)
    facets = every_record()
    asks_nan = says_nan(query.text)
    scores = {
        pk: score * (WITHOUT_NAN if asks_nan and not makes_nan(facets[pk]) else 1.0)
        for pk, score in matches
        if pk in facets
    }
    order = sorted(scores, key=lambda pk: (-scores[pk], pk))
    return [(pk, facets[pk]) for pk in order], scores


def makes_nan(facets: Facets) -> bool:
    return any(symptom.startswith(NAN) for symptom in facets["symptom"])


def in_order(records: list[str], sort: str, ranked: bool) -> list[str]:
    if sort == "newest":
        requested = set(records)
        newest = Record.objects.visible().order_by("-modified", "id")
        return [pk for pk in newest.values_list("pk", flat=True) if pk in requested]
    return records if ranked and sort == "relevance" else sorted(records)


def unknown_words(query: Query, index: Index) -> list[str]:
    """English words and names that stand in no record, not even in part."""
    return [
        term.tokens[0]
        for term in query.terms
        if term.tokens[0].isascii()
        and not term.in_parts
        and not any(map(index.frequency, term.every_token))
    ]


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
