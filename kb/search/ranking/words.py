"""Ranking of documents for a query of words, the same on every database."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from kb.choices import LANGS, SECTIONS
from kb.models import Record
from kb.search.index.documents import Document
from kb.search.index.store import NO_TERM, Store
from kb.search.ranking.nearness import Text
from kb.search.reading.query import Query, Term, prefix_of, weighted_words
from kb.search.reading.tokens import fold, is_common

K1, B = 1.2, 0.6
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


@dataclass(frozen=True)
class LogQuery:
    """The tokens of a log, by their numbers in the index.

    `worth`: the value of each token that any record has; `total`: of all tokens.
    `context`: numbers of the particular words of the whole log, of which there are
    `words`.
    """

    worth: Mapping[int, float]
    total: float
    context: frozenset[int]
    words: int


def log_query(weights: Mapping[str, float], words: list[str], store: Store) -> LogQuery:
    """From the weighted tokens and the words of a log; made once for all documents."""
    idf = store.idf_of(weights)
    values = {token: weight * idf[token] for token, weight in weights.items()}
    worth = {store.number(token): value for token, value in values.items()}
    worth.pop(NO_TERM.number, None)
    telling = [word for word in words if not is_common(word)]
    context = frozenset(map(store.number, telling)) - {NO_TERM.number}
    return LogQuery(worth, math.fsum(values.values()), context, len(telling))


def relevance(query: LogQuery, document: Document, store: Store) -> float:
    """BM25F of the document plus the covered share, both relative to the query."""
    norm = K1 * (1 - B + B * document.length / store.average_length)
    frequencies = [
        (value, frequency)
        for number, value in query.worth.items()
        if (frequency := document.terms.get(number, 0))
    ]
    # fsum: the order of the tokens must not change the last digits.
    score = math.fsum(
        value * n * (K1 + 1) / (n + norm) + value for value, n in frequencies
    )
    return score / query.total if query.total else 0.0


def context(query: LogQuery, document: Document) -> float:
    """The share of the log's telling words that the record speaks of, 0 to 1."""
    shared = len(query.context & document.terms.keys())
    return min(1.0, shared / (query.words or 1) * 4)


class WordMatch(NamedTuple):
    """`document`: its number in the index."""

    document: int
    score: float


# As WordMatch._make, without a step of Python for each of thousands of documents.
as_matches = partial(map, partial(tuple.__new__, WordMatch))


@dataclass(frozen=True)
class WeightedTerm:
    """A term, its value (weight times idf) and the documents that have it.

    `matches`: 1 for a document with the term, SYNONYM_SHARE for one with a synonym.
    """

    term: Term
    value: float
    matches: Mapping[int, float] = field(default_factory=dict)
    in_title: frozenset[int] = frozenset()


def match_words(query: Query, store: Store) -> list[WordMatch]:
    """Every document about the query, best first."""
    terms, total = weighted_terms(query.terms, store)
    if not terms:
        return []
    terms, shares = with_matches(terms, ENOUGH * total, store)
    if not shares and len(query.terms) >= LONG_QUERY:
        terms, shares = with_matches(terms, LITTLE * total, store)
    add_titles(terms, shares)
    order = sorted(shares)
    # Sorted twice, as a key made in Python for each would take ten times as long.
    order.sort(key=shares.__getitem__, reverse=True)
    text = Text(weighted_words(query.text), store)
    best = [
        WordMatch(
            document.id,
            COVERAGE * shares[document.id] / total + text.nearness(document),
        )
        for document in store.documents(order[:RERANKED])
    ]
    if len(query.terms) >= LONG_QUERY:
        best += more_by_nearness(text, shares)
    best = word_for_word(query, best_first(best), store)
    rest = order[RERANKED:]
    # Thousands of documents have the same few shares.
    score_of = {share: COVERAGE * share / total for share in set(shares.values())}
    scores = map(score_of.__getitem__, map(shares.__getitem__, rest))
    return [*best, *as_matches(zip(rest, scores, strict=True))]


def more_by_nearness(text: Text, found: Mapping[int, float]) -> list[WordMatch]:
    """Some that speak of the same in other words: a description holds many."""
    near = (
        WordMatch(document.id, text.nearness(document))
        for document in text.nearest()
        if document.id not in found
    )
    return best_first(match for match in near if match.score >= NEAR)[:MORE]


def best_first(matches: Iterable[WordMatch]) -> list[WordMatch]:
    return sorted(matches, key=lambda match: (-match.score, match.document))


def weighted_terms(
    terms: Iterable[Term], store: Store
) -> tuple[list[WeightedTerm], float]:
    """The terms that any record has, most telling first, and the worth of all.

    A word that no record has is the beginning of one, or counts as an average one.
    """
    terms = list(terms)
    store.prefetch([token for term in terms for token in term.every_token])
    weighted = []
    unknown = 0.0
    for term in terms:
        item = weighted_term(term, store)
        if item is not None:
            weighted.append(item)
        elif not term.in_parts:
            unknown += term.weight
    weighted.sort(key=lambda item: (-item.value, item.term.tokens))
    total = sum(item.value for item in weighted)
    weight = sum(item.term.weight for item in weighted)
    return weighted, total + (unknown * total / weight if weight else 0.0)


def weighted_term(term: Term, store: Store) -> WeightedTerm | None:
    """The term as it can be looked for; None where no record has it."""
    tokens = [token for token in term.tokens if store.term(token).documents]
    if tokens:
        plenty = max(store.term(token).documents for token in tokens)
        if plenty > max(PLENTY, store.count // PLENTY_SHARE):
            term = replace(term, synonyms=())
        return WeightedTerm(term, term.weight * max(map(store.idf, tokens)))
    others = [
        min(map(store.idf, other))
        for other in term.synonyms
        if all(store.term(token).documents for token in other)
    ]
    if others:
        return WeightedTerm(term, term.weight * max(others))
    start = next(
        (token for token in (*term.tokens, prefix_of(term)) if token.endswith("*")), ""
    )
    documents = store.engine.postings([start], "any")[start] if start else []
    if not documents:
        return None
    worth = term.weight * store.rarity(len(documents))
    return WeightedTerm(replace(term, tokens=(start,)), worth)


def with_matches(
    terms: list[WeightedTerm], enough: float, store: Store
) -> tuple[list[WeightedTerm], dict[int, float]]:
    """Documents that have terms worth `enough`, with what those they have are worth.

    Terms that are not enough even together are looked for only among the documents
    that have one of the others.
    """
    rest = sum(item.value for item in terms)
    needed: list[WeightedTerm] = []
    for item in terms:
        if rest < enough:
            break
        needed.append(item)
        rest -= item.value
    among = tokens_of(needed)
    postings = store.engine.postings(among, "any")
    others = [token for token in tokens_of(terms) if token not in postings]
    postings |= store.engine.postings(others, "any", among)
    titles = store.engine.postings(tokens_of(terms), "title")
    terms = [
        replace(
            item,
            matches=matches_of(item.term, postings),
            in_title=frozenset(matches_of(item.term, titles)),
        )
        for item in terms
    ]
    return terms, shares_of_documents(terms, enough)


def shares_of_documents(terms: list[WeightedTerm], enough: float) -> dict[int, float]:
    """What the terms of each document are worth, where that is enough."""
    shares: dict[int, float] = {}
    for item in terms:
        value, share_of = item.value, shares.get
        if shares:
            for pk, part in item.matches.items():
                shares[pk] = share_of(pk, 0.0) + part * value
        elif item.term.synonyms:
            shares = {pk: part * value for pk, part in item.matches.items()}
        else:
            shares = dict.fromkeys(item.matches, value)
    # Sums of the same numbers in another order differ in the last digits.
    least = enough - 1e-9
    if shares and min(shares.values()) >= least:
        return shares
    return {pk: share for pk, share in shares.items() if share >= least}


def tokens_of(terms: Iterable[WeightedTerm]) -> list[str]:
    return list(
        dict.fromkeys(token for item in terms for token in item.term.every_token)
    )


def matches_of(term: Term, postings: Mapping[str, list[int]]) -> dict[int, float]:
    """Documents with the term: 1, or half for those that say it in other words."""
    shares: dict[int, float] = {}
    for other in term.synonyms:
        sets = [set(postings[token]) for token in other]
        shares |= dict.fromkeys(set.intersection(*sets), SYNONYM_SHARE)
    for token in term.tokens:
        shares |= dict.fromkeys(postings[token], 1.0)
    return shares


def add_titles(terms: list[WeightedTerm], shares: dict[int, float]) -> None:
    """Count what stands in a title twice as much again."""
    for item in terms:
        for pk in item.in_title:
            if pk in shares:
                shares[pk] += IN_TITLE * item.matches.get(pk, 0.0) * item.value


def word_for_word(
    query: Query, matches: list[WordMatch], store: Store
) -> list[WordMatch]:
    """The first ones anew: with the whole query as it is in the text, they lead.

    A query of one term stands in all that have the term.
    """
    if len(query.terms) < 2:
        return matches
    documents = store.documents([match.document for match in matches[:READ]])
    texts = texts_of([document.record for document in documents])
    holding = {
        document.id
        for document in documents
        if any(query.text in fold(text).lower() for text in texts[document.record])
        or any(query.text in sign.text.lower() for sign in document.signatures)
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
