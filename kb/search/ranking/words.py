"""Ranking of documents for a query of words, the same on every database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kb.choices import LANGS, SECTIONS
from kb.models import Record
from kb.search.index.inverted import Column, Index
from kb.search.ranking.nearness import Text
from kb.search.reading.query import Query, Term, prefix_of, weighted_words
from kb.search.reading.tokens import fold

# Below this share of the query's weight a document is not about the query; a long
# query that nothing answers so well takes less.
ENOUGH, LITTLE = 0.4, 0.2
LONG_QUERY = 6
# Of a long query also these many others, from this nearness on.
MORE, NEAR = 10, 0.1
# A synonym counts half.
SYNONYM_SHARE = 0.5
# A term with more documents than this is not widened by synonyms.
PLENTY, PLENTY_SHARE = 100, 20
RERANKED = 50
COVERAGE, IN_TITLE, WORD_FOR_WORD = 0.02, 2.0, 2.0
# As many records are read to see whether the query stands there word for word.
READ = 30
TEXTS = [f"{name}_{lang}" for name in ("title", "summary", *SECTIONS) for lang in LANGS]


class WordMatch(NamedTuple):
    record: str
    score: float


@dataclass(frozen=True)
class WeightedTerm:
    """A term, its value (weight times idf) and the documents that have it.

    `matches`: 1 for a document with the term, SYNONYM_SHARE for one with a synonym.
    """

    term: Term
    value: float
    matches: Mapping[str, float] = field(default_factory=dict)
    in_title: frozenset[str] = frozenset()


def match_words(query: Query, index: Index) -> list[WordMatch]:
    """Every document about the query, best first."""
    terms, total = weighted_terms(query.terms, index)
    if not terms:
        return []
    terms, shares = with_matches(terms, ENOUGH * total, index)
    if not shares and len(query.terms) >= LONG_QUERY:
        terms, shares = with_matches(terms, LITTLE * total, index)
    add_titles(terms, shares)
    order = best_first(
        WordMatch(record, COVERAGE * share / total) for record, share in shares.items()
    )
    text = Text(weighted_words(query.text), index)
    best = [
        WordMatch(record, score + text.nearness(index.documents[record]))
        for record, score in order[:RERANKED]
    ]
    if len(query.terms) >= LONG_QUERY:
        best += more_by_nearness(text, shares)
    return [*word_for_word(query, best_first(best), index), *order[RERANKED:]]


def more_by_nearness(text: Text, found: Mapping[str, float]) -> list[WordMatch]:
    """Some that speak of the same in other words: a description holds many."""
    near = (
        WordMatch(document.record, text.nearness(document))
        for document in text.nearest()
        if document.record not in found
    )
    return best_first(match for match in near if match.score >= NEAR)[:MORE]


def best_first(matches: Iterable[WordMatch]) -> list[WordMatch]:
    return sorted(matches, key=lambda match: (-match.score, match.record))


def weighted_terms(
    terms: Iterable[Term], index: Index
) -> tuple[list[WeightedTerm], float]:
    """The terms that any record has, most telling first, and the worth of all.

    A word that no record has is the beginning of one, or counts as an average one.
    """
    terms = list(terms)
    weighted = []
    unknown = 0.0
    for term in terms:
        item = weighted_term(term, index)
        if item is not None:
            weighted.append(item)
        elif not term.in_parts:
            unknown += term.weight
    weighted.sort(key=lambda item: (-item.value, item.term.tokens))
    total = sum(item.value for item in weighted)
    weight = sum(item.term.weight for item in weighted)
    return weighted, total + (unknown * total / weight if weight else 0.0)


def weighted_term(term: Term, index: Index) -> WeightedTerm | None:
    """The term as it can be looked for; None where no record has it."""
    tokens = [token for token in term.tokens if index.frequency(token)]
    if tokens:
        if max(map(index.frequency, tokens)) > max(PLENTY, index.count // PLENTY_SHARE):
            term = replace(term, synonyms=())
        return WeightedTerm(term, term.weight * max(map(index.idf, tokens)))
    others = [
        min(map(index.idf, other))
        for other in term.synonyms
        if all(map(index.frequency, other))
    ]
    if others:
        return WeightedTerm(term, term.weight * max(others))
    start = next(
        (token for token in (*term.tokens, prefix_of(term)) if token.endswith("*")), ""
    )
    documents = index.having(start) if start else []
    if not documents:
        return None
    worth = term.weight * index.rarity(len(documents))
    return WeightedTerm(replace(term, tokens=(start,)), worth)


def with_matches(
    terms: list[WeightedTerm], enough: float, index: Index
) -> tuple[list[WeightedTerm], dict[str, float]]:
    """Documents that have terms worth `enough`, with what those they have are worth."""
    terms = [
        replace(
            item,
            matches=matches_of(item.term, index, "any"),
            in_title=frozenset(matches_of(item.term, index, "title")),
        )
        for item in terms
    ]
    return terms, shares_of_documents(terms, enough)


def shares_of_documents(terms: list[WeightedTerm], enough: float) -> dict[str, float]:
    """What the terms of each document are worth, where that is enough."""
    shares: dict[str, float] = defaultdict(float)
    for item in terms:
        for pk, part in item.matches.items():
            shares[pk] += part * item.value
    # Sums of the same numbers in another order differ in the last digits.
    least = enough - 1e-9
    return {pk: share for pk, share in shares.items() if share >= least}


def matches_of(term: Term, index: Index, column: Column) -> dict[str, float]:
    """Documents with the term: 1, or half for those that say it in other words."""
    shares: dict[str, float] = {}
    for other in term.synonyms:
        sets = [set(index.having(token, column)) for token in other]
        shares |= dict.fromkeys(set.intersection(*sets), SYNONYM_SHARE)
    for token in term.tokens:
        shares |= dict.fromkeys(index.having(token, column), 1.0)
    return shares


def add_titles(terms: list[WeightedTerm], shares: dict[str, float]) -> None:
    """Count what stands in a title twice as much again."""
    for item in terms:
        for pk in item.in_title:
            if pk in shares:
                shares[pk] += IN_TITLE * item.matches.get(pk, 0.0) * item.value


def word_for_word(
    query: Query, matches: list[WordMatch], index: Index
) -> list[WordMatch]:
    """The first ones anew: with the whole query as it is in the text, they lead.

    A query of one term stands in all that have the term.
    """
    if len(query.terms) < 2:
        return matches
    texts = texts_of([match.record for match in matches[:READ]])
    holding = {
        pk
        for pk in texts
        if any(query.text in fold(text).lower() for text in texts[pk])
        or any(query.text in s.text.lower() for s in index.documents[pk].signatures)
    }
    first = (
        WordMatch(pk, score + WORD_FOR_WORD * (pk in holding))
        for pk, score in matches[:READ]
    )
    return best_first(first) + matches[READ:]


def texts_of(records: Iterable[str]) -> dict[str, list[str]]:
    """The prose of each record; its lists are searched by their words alone."""
    rows = Record.objects.filter(pk__in=records).values_list("pk", *TEXTS)
    return {pk: texts for pk, *texts in rows}
