"""The index as ranking reads it: which documents have a token, and their contents.

The full-text index of the database (FTS5 of SQLite, tsvector of PostgreSQL) only
tells which documents have a token; all counting and ranking is done here, so that
both give the same answers.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, Protocol

from django.db import connection

from kb.models import Standing
from kb.search.index.documents import Contents, Document, Row
from kb.search.index.generation import (
    Generation,
    State,
    current_generation,
    current_state,
)
from kb.search.index.memory import keep, recall
from kb.search.index.postgres import PostgresEngine
from kb.search.index.sqlite import SqliteEngine
from kb.search.reading.signatures import Signature, plain
from kb.search.reading.tokens import is_common

Column = Literal["any", "title", "sign"]

COMMON_WEIGHT = 0.3
NEAREST = 30
# Of a log's telling words only the most telling are looked for.
TOKENS_MIN, TOKENS_MAX = 3, 32
POSTINGS_MIN, POSTINGS_SHARE = 2000, 5
MAX_WITH_KEYS = 100
# What finds a record for certain comes before what many share.
SURE_KEYS = ("fp:", "id:", "word:")
# Characters of a key; a database index refuses longer values.
MAX_KEY = 200
CACHED_TOKENS, CACHED_SIGNATURES = 50_000, 10_000
# Of a column.
CACHED_POSTINGS = 4000
# With its terms unpacked a document takes 25 kB.
CACHED_DOCUMENTS = 5000


class Engine(Protocol):
    """The full-text index of one kind of database, within `django.db.connection`."""

    def postings(
        self, tokens: Collection[str], column: Column, among: Collection[str] = ()
    ) -> dict[str, list[int]]:
        """Ids of the documents with each token, ascending.

        A token that ends in * stands for every token that begins so. With `among`,
        only documents that also have one of those tokens in this column.
        """

    def terms(self, tokens: list[str]) -> list[tuple[str, int, int, int]]:
        """(token, number, documents, signs) of those tokens that stand anywhere."""

    def with_keys(self, keys: list[str]) -> list[tuple[str, int]]:
        """(key, document) of every document with one of these keys."""

    def documents(self, ids: list[int]) -> list[Row]:
        """What is stored of these documents, in any order."""

    def facets(self, documents: list[int] | None) -> list[tuple[int, str, str]]:
        """(id, record, facets of its standing) of these documents; None for all."""

    def add(self, contents: Mapping[int, Contents]) -> None:
        """Put the tokens of saved documents into the full-text index."""

    def remove(self, contents: Mapping[int, Contents]) -> None:
        """Take documents that are gone out of the full-text index."""

    def clear(self) -> None:
        """Take everything out of the full-text index, whatever the rows say."""

    def count(self, counts: Mapping[str, tuple[int, int]]) -> dict[str, int]:
        """Raise the counts of terms by (documents, signs); the number of each."""

    def contents(self) -> dict[str, dict[int, set[str]]]:
        """Column -> document -> its tokens, as the full-text index has them."""


def current_engine() -> Engine:
    """For the database that the site uses."""
    return PostgresEngine() if connection.vendor == "postgresql" else SqliteEngine()


class Term(NamedTuple):
    """A token's number, how many documents have it, and how many in a signature."""

    number: int = 0
    documents: int = 0
    signs: int = 0


NO_TERM = Term()


@dataclass(frozen=True)
class Weighed:
    """A signature by the words that tell; most are left at once for their `whole`.

    `idf`: the weight of each of its tokens; `whole`: of all together.
    """

    text: str
    idf: Mapping[str, float]
    whole: float

    @cached_property
    def rare(self) -> tuple[str, ...]:
        """The tokens, the rarest first."""
        return tuple(sorted(self.idf, key=lambda token: (-self.idf[token], token)))

    @cached_property
    def plain(self) -> str:
        """The text as texts are compared word for word."""
        return plain(self.text)


@dataclass
class Cache:
    """What was read from one snapshot of the index; `records`: its version counter."""

    records: int
    terms: dict[str, Term] = field(default_factory=dict)
    idf: dict[str, float] = field(default_factory=dict)
    signatures: dict[Signature, Weighed] = field(default_factory=dict)
    documents: dict[int, Document] = field(default_factory=dict)
    # Column -> token -> ids.
    postings: dict[Column, dict[str, array[int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )


class Store:
    """The index as it is now: counts of tokens, and the documents worth ranking."""

    def __init__(self, state: State, engine: Engine, cache: Cache) -> None:
        self.generation = state.generation
        self.count = state.documents
        self.average_length = state.length / max(state.documents, 1) or 1.0
        self.engine = engine
        self._cache = cache

    # --- tokens -------------------------------------------------------------------
    def prefetch(self, tokens: Collection[str]) -> None:
        """Read the terms of these tokens into the cache, in one query."""
        cached = self._cache.terms
        missing = [token for token in tokens if token not in cached]
        if not missing:
            return
        if len(cached) > CACHED_TOKENS:
            cached.clear()
            self._cache.idf.clear()
        terms = dict.fromkeys(missing, NO_TERM)
        for token, *numbers in self.engine.terms(missing):
            terms[token] = Term(*numbers)
        cached |= terms

    def term(self, token: str) -> Term:
        term = self._cache.terms.get(token)
        if term is None:
            self.prefetch([token])
            term = self._cache.terms.get(token, NO_TERM)
        return term

    def number(self, token: str) -> int:
        """The token's number in the index; 0 for a token that no document has."""
        return self.term(token).number

    def idf(self, token: str) -> float:
        """The inverse document frequency; less for words that all error texts share."""
        idf = self._cache.idf.get(token)
        if idf is None:
            weight = COMMON_WEIGHT if is_common(token) else 1.0
            idf = weight * self.rarity(self.term(token).documents)
            self._cache.idf[token] = idf
        return idf

    def idf_of(self, tokens: Collection[str]) -> dict[str, float]:
        """`idf` of each as a dict, which is faster for thousands of tokens."""
        self.prefetch(tokens)
        cached = self._cache.idf
        # Read once each: another thread may be emptying the cache.
        values = {token: cached.get(token) for token in tokens}
        return {
            token: self.idf(token) if idf is None else idf
            for token, idf in values.items()
        }

    def weighed(self, signatures: Iterable[Signature]) -> dict[Signature, Weighed]:
        """What each signature weighs, which is the same for every log."""
        cache, wanted = self._cache.signatures, dict.fromkeys(signatures)
        found = {sign: weight for sign in wanted if (weight := cache.get(sign))}
        missing = [sign for sign in wanted if sign not in found]
        if missing:
            self.prefetch({token for sign in missing for token in sign.tokens})
            loaded = {sign: self._weighed(sign) for sign in missing}
            found |= loaded
            keep(cache, loaded, CACHED_SIGNATURES)
        return found

    def _weighed(self, signature: Signature) -> Weighed:
        idf = {token: self.idf(token) for token in signature.tokens}
        return Weighed(signature.text, idf, math.fsum(idf.values()))

    def rarity(self, documents: int) -> float:
        """The inverse document frequency of BM25, for this document frequency."""
        return rarity(self.count, documents)

    # --- documents ----------------------------------------------------------------
    def documents(self, ids: Collection[int]) -> list[Document]:
        """These documents, in this order; unknown ids are left out."""
        cache = self._cache.documents
        documents = recall(cache, ids)
        missing = [pk for pk in ids if pk not in documents]
        if missing:
            rows = self.engine.documents(missing)
            loaded = {row[0]: Document(row, self.number) for row in rows}
            documents |= loaded
            keep(cache, loaded, CACHED_DOCUMENTS)
        return [documents[pk] for pk in ids if pk in documents]

    def with_keys(self, keys: Collection[str]) -> list[Document]:
        """Up to about 100 documents with any of these keys of signatures.

        Those with a key that names one bug come first, then those with most keys.
        """
        prefixes = sorted({key[:MAX_KEY] for key in keys})
        sure: dict[int, int] = defaultdict(int)
        shared: dict[int, int] = defaultdict(int)
        for key, document in self.engine.with_keys(prefixes):
            (sure if key.startswith(SURE_KEYS) else shared)[document] += 1
        ids = heapq.nsmallest(MAX_WITH_KEYS, sure, key=lambda pk: (-sure[pk], pk))
        rest = shared.keys() - sure.keys()
        ids += heapq.nsmallest(
            MAX_WITH_KEYS - len(ids), rest, key=lambda pk: (-shared[pk], pk)
        )
        return self.documents(ids)

    def nearest(self, weights: Mapping[str, float]) -> list[Document]:
        """The documents whose signatures share most with these weighted tokens."""
        idf = self.idf_of(weights)
        return self.sharing_most(
            {token: weight * idf[token] for token, weight in weights.items()}, "sign"
        )

    def sharing_most(
        self, values: Mapping[str, float], column: Column
    ) -> list[Document]:
        """The documents that have most of what these tokens are worth in a column."""
        scores: dict[int, float] = defaultdict(float)
        chosen = self.most_telling(values, column)
        for token, ids in self.postings(chosen, column).items():
            value = values[token]
            for pk in ids:
                scores[pk] += value
        # Without a key the heap is four times faster; few have the last score.
        least = min(heapq.nlargest(NEAREST, scores.values()), default=0.0)
        nearest = [pk for pk, score in scores.items() if score >= least]
        nearest.sort(key=lambda pk: (-scores[pk], pk))
        return self.documents(nearest[:NEAREST])

    def postings(self, tokens: list[str], column: Column) -> dict[str, array[int]]:
        """The ids of the documents with each token, in the order of `tokens`."""
        cache = self._cache.postings[column]
        found = recall(cache, tokens)
        missing = [token for token in tokens if token not in found]
        if missing:
            read = self.engine.postings(missing, column)
            loaded = {token: array("q", ids) for token, ids in read.items()}
            found |= loaded
            keep(cache, loaded, CACHED_POSTINGS)
        # Sums of the same numbers in another order differ in the last digits.
        return {token: found[token] for token in tokens}

    def most_telling(self, values: Mapping[str, float], column: Column) -> list[str]:
        """The tokens worth most, as many as the budget of postings allows."""
        frequency = {
            token: term.signs if column == "sign" else term.documents
            for token in values
            if (term := self.term(token))
        }
        present = {token: value for token, value in values.items() if frequency[token]}
        budget = max(POSTINGS_MIN, self.count // POSTINGS_SHARE)
        chosen: list[str] = []
        for token in heapq.nsmallest(
            TOKENS_MAX, present, key=lambda token: (-present[token], token)
        ):
            budget -= frequency[token]
            if budget < 0 and len(chosen) >= TOKENS_MIN:
                break
            chosen.append(token)
        return chosen


@lru_cache(maxsize=20_000)
def rarity(count: int, documents: int) -> float:
    return math.log(1 + (count - documents + 0.5) / (documents + 0.5))


_cache = Cache(0)


def current_store() -> Store:
    """The store of the published records, as the current transaction sees them."""
    global _cache
    state = current_state()
    cache = _cache
    if cache.records != state.records:
        # In one assignment, as another thread may be reading.
        _cache = cache = Cache(state.records)
    return Store(state, current_engine(), cache)


def records_of(store: Store, ids: Iterable[int]) -> dict[int, tuple[str, str]]:
    """The record and the facets of each document."""
    requested = list(ids)
    # A full read is faster than a lookup of many ids.
    few = len(requested) < store.count // 4
    rows = store.engine.facets(requested if few else None)
    return {pk: (record, facets) for pk, record, facets in rows}


def every_record() -> dict[str, str]:
    """All published records with their facets, by id. Not to be changed."""
    return records_in(current_generation())


@lru_cache(maxsize=2)
def records_in(generation: Generation) -> dict[str, str]:
    return dict(Standing.objects.order_by("pk").values_list("pk", "facets"))
