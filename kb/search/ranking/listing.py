"""A search with its filters and its order, as the page and the API answer it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kb.models import Record
from kb.search.index.store import Store, current_store, every_record, records_of
from kb.search.ranking.filters import RecordFacets, Verdicts, narrow
from kb.search.ranking.words import match_words
from kb.search.reading.query import Query, read_query

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
    store = current_store()
    if text.strip():
        matching, scores = by_words(query, store)
    else:
        matching, scores = list(every_record().items()), {}
    narrowed = narrow(matching, verdicts, chosen)
    ordered = in_order(narrowed.records, sort, bool(scores))
    return Listing(
        query,
        [(record, scores.get(record, 0.0)) for record in ordered],
        len(matching),
        narrowed.counts,
        unknown_words(query, store),
    )


def by_words(
    query: Query, store: Store, limit: int | None = None
) -> tuple[list[RecordFacets], dict[str, float]]:
    """At most `limit` records with their facets, best first, and the score of each."""
    matches = match_words(query, store)[:limit]
    rows = records_of(store, [match.document for match in matches])
    matches = [match for match in matches if match.document in rows]
    scores = {rows[match.document][0]: match.score for match in matches}
    return [rows[match.document] for match in matches], scores


def in_order(records: list[str], sort: str, ranked: bool) -> list[str]:
    if sort == "newest":
        requested = set(records)
        newest = Record.objects.visible().order_by("-modified", "id")
        return [pk for pk in newest.values_list("pk", flat=True) if pk in requested]
    return records if ranked and sort == "relevance" else sorted(records)


def unknown_words(query: Query, store: Store) -> list[str]:
    """English words and names that stand in no record, not even in part."""
    return [
        term.tokens[0]
        for term in query.terms
        if term.tokens[0].isascii()
        and not term.in_parts
        and not any(store.term(token).documents for token in term.every_token)
    ]
