"""How well a document answers a query of words, the same on every database."""

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
from kb.search.reading.query import Query, Term, prefix_of
from kb.search.reading.tokens import fold, is_common

K1, B = 1.2, 0.6
# Below this share of the query's weight a document is not about the query; a long
# query that nothing answers so well takes less.
ENOUGH, LITTLE = 0.4, 0.2
LONG_QUERY = 8
# What means the same in other words counts half.
OTHER_WORDS = 0.5
# What so many documents say needs no other words.
PLENTY, PLENTY_SHARE = 100, 20
RERANKED = 50
COVERAGE, IN_TITLE, WORD_FOR_WORD = 0.5, 2.0, 2.0
# As many records are read to see whether the query stands there word for word.
READ = 30
TEXTS = [f"{name}_{lang}" for name in ("title", "summary", *SECTIONS) for lang in LANGS]


@dataclass(frozen=True)
class Wanted:
    """What a log asks for, in the numbers that the index has for tokens.

    `worth` of each token that a record has, and in `total` of all tokens; `context`:
    telling words of the whole log, `words` in all.
    """

    worth: Mapping[int, float]
    total: float
    context: frozenset[int]
    words: int


def wanted(weights: Mapping[str, float], words: list[str], store: Store) -> Wanted:
    """From weighted tokens and words, once for all documents."""
    idf = store.idf_of(weights)
    values = {token: weight * idf[token] for token, weight in weights.items()}
    worth = {store.number(token): value for token, value in values.items()}
    worth.pop(NO_TERM.number, None)
    telling = [word for word in words if not is_common(word)]
    context = frozenset(map(store.number, telling)) - {NO_TERM.number}
    return Wanted(worth, math.fsum(values.values()), context, len(telling))


def relevance(query: Wanted, document: Document, store: Store) -> float:
    """BM25F of the document plus the covered share, both relative to the query."""
    norm = K1 * (1 - B + B * document.length / store.average_length)
    held = [
        (value, frequency)
        for number, value in query.worth.items()
        if (frequency := document.terms.get(number, 0))
    ]
    # The tokens of a log come in any order, and the last digits shall not.
    found = math.fsum(value * n * (K1 + 1) / (n + norm) + value for value, n in held)
    return found / query.total if query.total else 0.0


def context(query: Wanted, document: Document) -> float:
    """The share of the log's telling words that the record speaks of, 0 to 1."""
    known = len(query.context & document.terms.keys())
    return min(1.0, known / (query.words or 1) * 4)


class WordMatch(NamedTuple):
    """`document`: its number in the index."""

    document: int
    score: float


# As WordMatch._make, without a step of Python for each of thousands of documents.
as_matches = partial(map, partial(tuple.__new__, WordMatch))


@dataclass(frozen=True)
class Asked:
    """A term, what it is worth (its weight times its idf), and who has it.

    `found`: 1 for a document with the term, half for one that says it in other words.
    """

    term: Term
    value: float
    found: Mapping[int, float] = field(default_factory=dict)
    in_title: frozenset[int] = frozenset()


def match_words(query: Query, store: Store) -> list[WordMatch]:
    """Every document about the query, best first."""
    asked, total = weighed(query.terms, store)
    if not asked:
        return []
    asked, shares = covered(asked, ENOUGH * total, store)
    if not shares and len(query.terms) >= LONG_QUERY:
        asked, shares = covered(asked, LITTLE * total, store)
    add_titles(asked, shares)
    order = sorted(shares)
    # Sorted twice, as a key made in Python for each would take ten times as long.
    order.sort(key=shares.__getitem__, reverse=True)
    judged = [
        WordMatch(
            document.id,
            (COVERAGE * shares[document.id] + bm25(asked, document, store)) / total,
        )
        for document in store.documents(order[:RERANKED])
    ]
    judged = word_for_word(query, best_first(judged), store)
    rest = order[RERANKED:]
    # Thousands of documents have the same few shares.
    score_of = {share: COVERAGE * share / total for share in set(shares.values())}
    scores = map(score_of.__getitem__, map(shares.__getitem__, rest))
    return [*judged, *as_matches(zip(rest, scores, strict=True))]


def best_first(matches: Iterable[WordMatch]) -> list[WordMatch]:
    return sorted(matches, key=lambda match: (-match.score, match.document))


def weighed(terms: Iterable[Term], store: Store) -> tuple[list[Asked], float]:
    """The terms that any record has, most telling first, and the worth of all.

    A word that no record has is the beginning of one, or counts as an average one.
    """
    terms = list(terms)
    store.prefetch([token for term in terms for token in term.every_token])
    asked = []
    unknown = 0.0
    for term in terms:
        known = known_as(term, store)
        if known is not None:
            asked.append(known)
        elif not term.in_parts:
            unknown += term.weight
    asked.sort(key=lambda item: (-item.value, item.term.tokens))
    total = sum(item.value for item in asked)
    weight = sum(item.term.weight for item in asked)
    return asked, total + (unknown * total / weight if weight else 0.0)


def known_as(term: Term, store: Store) -> Asked | None:
    """The term as it can be looked for; None where no record has it."""
    known = [token for token in term.tokens if store.term(token).documents]
    if known:
        plenty = max(store.term(token).documents for token in known)
        if plenty > max(PLENTY, store.count // PLENTY_SHARE):
            term = replace(term, others=())
        return Asked(term, term.weight * max(map(store.idf, known)))
    others = [
        min(map(store.idf, other))
        for other in term.others
        if all(store.term(token).documents for token in other)
    ]
    if others:
        return Asked(term, term.weight * max(others))
    start = next(
        (token for token in (*term.tokens, prefix_of(term)) if token.endswith("*")), ""
    )
    found = store.engine.postings([start], "any")[start] if start else []
    if not found:
        return None
    worth = term.weight * store.rarity(len(found))
    return Asked(replace(term, tokens=(start,)), worth)


def covered(
    asked: list[Asked], enough: float, store: Store
) -> tuple[list[Asked], dict[int, float]]:
    """Documents that have terms worth `enough`, with what those they have are worth.

    Terms that are not enough even together are looked for only among the documents
    that have one of the others.
    """
    rest = sum(item.value for item in asked)
    needed: list[Asked] = []
    for item in asked:
        if rest < enough:
            break
        needed.append(item)
        rest -= item.value
    among = tokens_of(needed)
    postings = store.engine.postings(among, "any")
    others = [token for token in tokens_of(asked) if token not in postings]
    postings |= store.engine.postings(others, "any", among)
    titles = store.engine.postings(tokens_of(asked), "title")
    asked = [
        replace(
            item,
            found=having(item.term, postings),
            in_title=frozenset(having(item.term, titles)),
        )
        for item in asked
    ]
    return asked, having_enough(asked, enough)


def having_enough(asked: list[Asked], enough: float) -> dict[int, float]:
    """What the terms of each document are worth, where that is enough."""
    shares: dict[int, float] = {}
    for item in asked:
        value, known = item.value, shares.get
        if shares:
            for pk, part in item.found.items():
                shares[pk] = known(pk, 0.0) + part * value
        elif item.term.others:
            shares = {pk: part * value for pk, part in item.found.items()}
        else:
            shares = dict.fromkeys(item.found, value)
    # Sums of the same numbers in another order differ in the last digits.
    least = enough - 1e-9
    if shares and min(shares.values()) >= least:
        return shares
    return {pk: share for pk, share in shares.items() if share >= least}


def tokens_of(asked: Iterable[Asked]) -> list[str]:
    return list(
        dict.fromkeys(token for item in asked for token in item.term.every_token)
    )


def having(term: Term, postings: Mapping[str, list[int]]) -> dict[int, float]:
    """Documents with the term: 1, or half for those that say it in other words."""
    found: dict[int, float] = {}
    for other in term.others:
        sets = [set(postings[token]) for token in other]
        found |= dict.fromkeys(set.intersection(*sets), OTHER_WORDS)
    for token in term.tokens:
        found |= dict.fromkeys(postings[token], 1.0)
    return found


def add_titles(asked: list[Asked], shares: dict[int, float]) -> None:
    """Count what stands in a title twice as much again."""
    for item in asked:
        for pk in item.in_title:
            if pk in shares:
                shares[pk] += IN_TITLE * item.found.get(pk, 0.0) * item.value


def bm25(asked: list[Asked], document: Document, store: Store) -> float:
    norm = K1 * (1 - B + B * document.length / store.average_length)
    found = 0.0
    for item in asked:
        part = item.found.get(document.id, 0.0)
        if part:
            n = frequency(item.term, document)
            found += part * item.value * n * (K1 + 1) / (n + norm)
    return found


def frequency(term: Term, document: Document) -> int:
    """How often a document that has the term has it; of a beginning once."""
    own = max(document.weights.get(token) for token in term.tokens)
    other = [min(map(document.weights.get, other)) for other in term.others]
    return own or max(other, default=0) or 1


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
