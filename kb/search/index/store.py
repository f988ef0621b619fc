"""What ranking asks of the index: which documents have a token, and what they hold.

The full-text index of the database (FTS5 of SQLite, tsvector of PostgreSQL) only
tells which documents have a token; all counting and ranking is done here, so that
both give the same answers.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol

from django.db import connection

from kb.models import Standing
from kb.search.index.documents import Contents, Document, Row, State
from kb.search.index.generation import Generation, current_generation
from kb.search.index.postgres import PostgresEngine
from kb.search.index.sqlite import SqliteEngine
from kb.search.reading.tokens import is_common

Column = Literal["any", "title", "sign"]

COMMON_WEIGHT = 0.3
NEAREST = 30
# Of a log's telling words only the most telling are looked for.
TOKENS_MIN, TOKENS_MAX = 3, 32
POSTINGS_MIN, POSTINGS_SHARE = 2000, 5
HAVING = 100
# What finds a record for certain comes before what many share.
SURE_KEYS = ("fp:", "id:", "word:")
# Keys are as long as what they stand for; an index takes no more of one.
MAX_KEY = 200
CACHED_TOKENS = 50_000
CACHED_DOCUMENTS = 200


class Engine(Protocol):
    """The full-text index of one kind of database, within `django.db.connection`."""

    def postings(
        self, tokens: Collection[str], column: Column, among: Collection[str] = ()
    ) -> dict[str, list[int]]:
        """Ids of the documents with each token, ascending.

        A token that ends in * stands for every token that begins so. With `among`,
        only documents that also have one of those tokens in this column.
        """
        ...

    def terms(self, tokens: list[str]) -> list[tuple[str, int, int, int]]:
        """(token, number, documents, signs) of those tokens that stand anywhere."""
        ...

    def having(self, keys: list[str]) -> list[tuple[str, int]]:
        """(key, document) of every document with one of these keys."""
        ...

    def state(self) -> State:
        """The totals as they are now."""
        ...

    def documents(self, ids: list[int]) -> list[Row]:
        """What is stored of these documents, in any order."""
        ...

    def facets(self, documents: list[int] | None) -> list[tuple[int, str, str]]:
        """(id, record, facets of its standing) of these documents; None for all."""
        ...

    def add(self, contents: Mapping[int, Contents]) -> None:
        """Put the tokens of saved documents into the full-text index."""
        ...

    def remove(self, contents: Mapping[int, Contents]) -> None:
        """Take documents that are gone out of the full-text index."""
        ...

    def clear(self) -> None:
        """Take everything out of the full-text index, whatever the rows say."""
        ...

    def count(self, counts: Mapping[str, tuple[int, int]]) -> dict[str, int]:
        """Raise the counts of terms by (documents, signs); the number of each."""
        ...

    def contents(self) -> dict[str, dict[int, set[str]]]:
        """Column -> document -> its tokens, as the full-text index has them."""
        ...


def current_engine() -> Engine:
    """For the database that the site uses."""
    return PostgresEngine() if connection.vendor == "postgresql" else SqliteEngine()


class Term(NamedTuple):
    """A token's number, how many documents have it, and how many in a signature."""

    number: int = 0
    documents: int = 0
    signs: int = 0


NO_TERM = Term()


@dataclass
class Cache:
    """What was read of one generation of the index; another one starts anew."""

    generation: int
    terms: dict[str, Term] = field(default_factory=dict)
    idf: dict[str, float] = field(default_factory=dict)
    documents: dict[int, Document] = field(default_factory=dict)


class Store:
    """The index as it is now: counts of tokens, and the documents worth ranking."""

    def __init__(self, state: State, engine: Engine, cache: Cache) -> None:
        self.generation = state.generation
        self.count = state.documents
        self.average_length = state.length / max(state.documents, 1) or 1.0
        self.engine = engine
        self._cache = cache

    # --- how telling a token is ---------------------------------------------------
    def prefetch(self, tokens: Collection[str]) -> None:
        """Read what `term` and `idf` will be asked for, in one query."""
        known = self._cache.terms
        missing = [token for token in tokens if token not in known]
        if not missing:
            return
        if len(known) > CACHED_TOKENS:
            known.clear()
            self._cache.idf.clear()
        found = dict.fromkeys(missing, NO_TERM)
        for token, *numbers in self.engine.terms(missing):
            found[token] = Term(*numbers)
        known |= found

    def term(self, token: str) -> Term:
        found = self._cache.terms.get(token)
        if found is None:
            self.prefetch([token])
            found = self._cache.terms.get(token, NO_TERM)
        return found

    def number(self, token: str) -> int:
        """What a document's weights know the token by; 0 for one of no record."""
        return self.term(token).number

    def idf(self, token: str) -> float:
        """How telling a token is; words common to all error texts count less."""
        found = self._cache.idf.get(token)
        if found is None:
            weight = COMMON_WEIGHT if is_common(token) else 1.0
            found = weight * self.rarity(self.term(token).documents)
            self._cache.idf[token] = found
        return found

    def idf_of(self, tokens: Collection[str]) -> dict[str, float]:
        """`idf` of each: a dict is quicker to ask, for those who ask thousands."""
        self.prefetch(tokens)
        known = self._cache.idf
        # Asked for once: another thread may be emptying the cache.
        found = {token: known.get(token) for token in tokens}
        return {
            token: self.idf(token) if idf is None else idf
            for token, idf in found.items()
        }

    def rarity(self, documents: int) -> float:
        """Of what stands in so many documents, as BM25 has it."""
        return math.log(1 + (self.count - documents + 0.5) / (documents + 0.5))

    # --- documents ----------------------------------------------------------------
    def documents(self, ids: Collection[int]) -> list[Document]:
        """These documents, in this order; ids of none are left out."""
        known = self._cache.documents
        # Asked for once: another thread may be emptying the cache.
        found = {pk: document for pk in ids if (document := known.get(pk))}
        missing = [pk for pk in ids if pk not in found]
        if missing:
            rows = self.engine.documents(missing)
            fresh = {row[0]: Document(row, self.number) for row in rows}
            if len(known) + len(fresh) > CACHED_DOCUMENTS:
                known.clear()
            known |= fresh
            found |= fresh
        return [found[pk] for pk in ids if pk in found]

    def having(self, keys: Collection[str]) -> list[Document]:
        """Up to about 100 documents with any of these keys of signatures.

        Those with a key that names one bug come first, then those with most keys.
        """
        wanted = sorted({key[:MAX_KEY] for key in keys})
        sure: dict[int, int] = defaultdict(int)
        shared: dict[int, int] = defaultdict(int)
        for key, document in self.engine.having(wanted):
            (sure if key.startswith(SURE_KEYS) else shared)[document] += 1
        found = heapq.nsmallest(HAVING, sure, key=lambda pk: (-sure[pk], pk))
        rest = shared.keys() - sure.keys()
        found += heapq.nsmallest(
            HAVING - len(found), rest, key=lambda pk: (-shared[pk], pk)
        )
        return self.documents(found)

    def nearest(self, weights: Mapping[str, float]) -> list[Document]:
        """The documents whose signatures share most with these weighted tokens."""
        idf = self.idf_of(weights)
        worth = {
            token: weight * idf[token]
            for token, weight in weights.items()
            if self.term(token).signs
        }
        scores: dict[int, float] = defaultdict(float)
        chosen = self.most_telling(worth)
        for token, ids in self.engine.postings(chosen, "sign").items():
            value = worth[token]
            for pk in ids:
                scores[pk] += value
        # Without a key the heap is four times faster; few have the last score.
        least = min(heapq.nlargest(NEAREST, scores.values()), default=0.0)
        best = [pk for pk, score in scores.items() if score >= least]
        best.sort(key=lambda pk: (-scores[pk], pk))
        return self.documents(best[:NEAREST])

    def most_telling(self, worth: Mapping[str, float]) -> list[str]:
        """As many tokens as can be looked for without visiting too many documents."""
        budget = max(POSTINGS_MIN, self.count // POSTINGS_SHARE)
        chosen: list[str] = []
        for token in heapq.nsmallest(
            TOKENS_MAX, worth, key=lambda token: (-worth[token], token)
        ):
            budget -= self.term(token).signs
            if budget < 0 and len(chosen) >= TOKENS_MIN:
                break
            chosen.append(token)
        return chosen


_cache = Cache(0)


def current_store() -> Store:
    """The store of the published records, as the current transaction sees them."""
    global _cache
    engine = current_engine()
    state = engine.state()
    cache = _cache
    if cache.generation != state.generation:
        # In one assignment, as another thread may be reading.
        _cache = cache = Cache(state.generation)
    return Store(state, engine, cache)


def records_of(store: Store, ids: Iterable[int]) -> dict[int, tuple[str, str]]:
    """The record and the facets of each document."""
    wanted = list(ids)
    # Many are read faster with all the others than one by one.
    few = len(wanted) < store.count // 4
    rows = store.engine.facets(wanted if few else None)
    return {pk: (record, facets) for pk, record, facets in rows}


def every_record() -> dict[str, str]:
    """All published records with their facets, by id. Not to be changed."""
    return records_in(current_generation())


@lru_cache(maxsize=2)
def records_in(generation: Generation) -> dict[str, str]:
    return dict(Standing.objects.order_by("pk").values_list("pk", "facets"))
