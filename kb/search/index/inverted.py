"""The index in memory: which records have a token, and what each is found by.

Built from the documents that are kept beside the records. A process reads those that
have changed once it sees another generation, so that all processes answer alike.
"""

from __future__ import annotations

import heapq
import math
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Literal

from kb.models import SearchDocument, Standing
from kb.search.index.documents import Document
from kb.search.index.generation import Generation, current_generation
from kb.search.reading.signatures import Signature, plain
from kb.search.reading.tokens import is_common

Column = Literal["any", "title", "sign"]
# By token or key the records that have it, in their order.
Postings = Mapping[str, list[str]]

COMMON_WEIGHT = 0.3
NEAREST = 30
# Of a log's telling words only the most telling are looked for.
TOKENS_MIN, TOKENS_MAX = 3, 32
POSTINGS_MIN, POSTINGS_SHARE = 2000, 5
MAX_WITH_KEYS = 100
# What finds a record for certain comes before what many share.
SURE_KEYS = ("fp:", "id:", "word:")


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


class Index:
    """The published records of one generation; nothing of it changes."""

    def __init__(
        self,
        generation: int = 0,
        digests: Mapping[str, str] | None = None,
        documents: Mapping[str, Document] | None = None,
        postings: Mapping[str, Postings] | None = None,
    ) -> None:
        self.generation = generation
        self.digests = digests or {}
        self.documents = documents or {}
        self.postings = postings or {
            name: {} for name in ("any", "title", "sign", "key")
        }
        self.count = len(self.documents)
        length = sum(document.length for document in self.documents.values())
        self.average_length = length / max(self.count, 1) or 1.0
        self._idf: dict[str, float] = {}
        self._weighed: dict[Signature, Weighed] = {}

    def brought_to(self, generation: int) -> Index:
        """The index as the rows are now; only documents that changed are read."""
        rows = SearchDocument.objects.all()
        digests = dict(rows.order_by("pk").values_list("pk", "digest"))
        kept = {pk for pk, digest in digests.items() if self.digests.get(pk) == digest}
        # Databases limit the values of a statement; at the start all are read.
        read = rows.filter(pk__in=digests.keys() - kept) if kept else rows
        come = {
            pk: Document.unpack(pk, text)
            for pk, text in read.values_list("pk", "contents").iterator()
        }
        gone = [self.documents[pk] for pk in self.documents.keys() - kept]
        documents = {**self.documents, **come}
        return Index(
            generation,
            digests,
            {pk: documents[pk] for pk in digests if pk in documents},
            {
                column: changed(postings, column, gone, come.values())
                for column, postings in self.postings.items()
            },
        )

    # --- tokens -------------------------------------------------------------------
    def having(self, token: str, column: Column = "any") -> list[str]:
        """The records with a token; with `*` at its end with any that begins so."""
        if not token.endswith("*"):
            return self.postings[column].get(token, [])
        start = token.removesuffix("*")
        first = bisect_left(self.vocabulary, start)
        rest = (self.vocabulary[at] for at in range(first, len(self.vocabulary)))
        tokens = takewhile(lambda other: other.startswith(start), rest)
        found = (self.postings[column].get(other, []) for other in tokens)
        return sorted(set().union(*found))

    @cached_property
    def vocabulary(self) -> list[str]:
        return sorted(self.postings["any"])

    def frequency(self, token: str, column: Column = "any") -> int:
        """In how many records the token stands."""
        return len(self.postings[column].get(token, ()))

    def rarity(self, documents: int) -> float:
        """The inverse document frequency of BM25, for this document frequency."""
        return rarity(self.count, documents)

    def idf(self, token: str) -> float:
        """The inverse document frequency; less for words that all error texts share."""
        idf = self._idf.get(token)
        if idf is None:
            weight = COMMON_WEIGHT if is_common(token) else 1.0
            idf = weight * self.rarity(self.frequency(token))
            if token in self.postings["any"]:  # what strangers paste has no end
                self._idf[token] = idf
        return idf

    def weighed(self, signatures: Iterable[Signature]) -> dict[Signature, Weighed]:
        """What each signature of a record weighs, which is the same for every log."""
        found = {}
        for sign in signatures:
            if sign not in self._weighed:
                idf = {token: self.idf(token) for token in sign.tokens}
                whole = math.fsum(idf.values())
                self._weighed[sign] = Weighed(sign.text, idf, whole)
            found[sign] = self._weighed[sign]
        return found

    # --- documents ----------------------------------------------------------------
    def with_keys(self, keys: Collection[str]) -> list[Document]:
        """Up to about 100 documents with any of these keys of signatures.

        Those with a key that names one bug come first, then those with most keys.
        """
        sure: dict[str, int] = defaultdict(int)
        shared: dict[str, int] = defaultdict(int)
        for key in set(keys):
            counts = sure if key.startswith(SURE_KEYS) else shared
            for record in self.postings["key"].get(key, ()):
                counts[record] += 1
        found = heapq.nsmallest(MAX_WITH_KEYS, sure, key=lambda pk: (-sure[pk], pk))
        rest = shared.keys() - sure.keys()
        found += heapq.nsmallest(
            MAX_WITH_KEYS - len(found), rest, key=lambda pk: (-shared[pk], pk)
        )
        return [self.documents[pk] for pk in found]

    def nearest(self, weights: Mapping[str, float]) -> list[Document]:
        """The documents whose signatures share most with these weighted tokens."""
        values = {token: weight * self.idf(token) for token, weight in weights.items()}
        return self.sharing_most(values, "sign")

    def sharing_most(
        self, values: Mapping[str, float], column: Column
    ) -> list[Document]:
        """The documents that have most of what these tokens are worth in a column."""
        scores: dict[str, float] = defaultdict(float)
        for token in self.most_telling(values, column):
            for record in self.having(token, column):
                scores[record] += values[token]
        nearest = heapq.nsmallest(NEAREST, scores, key=lambda pk: (-scores[pk], pk))
        return [self.documents[pk] for pk in nearest]

    def most_telling(self, values: Mapping[str, float], column: Column) -> list[str]:
        """The tokens worth most, as many as the budget of postings allows."""
        present = [token for token in values if self.frequency(token, column)]
        budget = max(POSTINGS_MIN, self.count // POSTINGS_SHARE)
        chosen: list[str] = []
        for token in heapq.nsmallest(
            TOKENS_MAX, present, key=lambda token: (-values[token], token)
        ):
            budget -= self.frequency(token, column)
            if budget < 0 and len(chosen) >= TOKENS_MIN:
                break
            chosen.append(token)
        return chosen


def changed(
    postings: Postings,
    column: str,
    gone: Iterable[Document],
    come: Collection[Document],
) -> Postings:
    """Postings without the documents that went, with those that came."""
    left = {document.record for document in gone}
    added: dict[str, list[str]] = defaultdict(list)
    for document in come:
        for token in tokens_in(document, column):
            added[token].append(document.record)
    touched = added.keys() | {t for one in gone for t in tokens_in(one, column)}
    found = dict(postings)
    for token in touched:
        rest = [record for record in found.pop(token, ()) if record not in left]
        if records := sorted(rest + added.get(token, [])):
            found[token] = records
    return found


def tokens_in(document: Document, column: str) -> Collection[str]:
    columns: dict[str, Collection[str]] = {
        "any": document.weights,
        "title": document.title,
        "sign": document.sign,
        "key": document.keys,
    }
    return columns[column]


@lru_cache(maxsize=20_000)
def rarity(count: int, documents: int) -> float:
    return math.log(1 + (count - documents + 0.5) / (documents + 0.5))


_index = Index()
_reading = threading.Lock()


def current_index() -> Index:
    """The index of the published records, as the current transaction sees them."""
    return index_in(current_generation())


def index_in(state: Generation) -> Index:
    """The index of the published records in this generation."""
    global _index
    generation, _tallies = state
    if _index.generation != generation:
        with _reading:  # threads that come meanwhile need not read it too
            if _index.generation != generation:
                _index = _index.brought_to(generation)
    return _index


# Of each facet its values.
Facets = Mapping[str, list[str]]


def every_record() -> dict[str, Facets]:
    """All published records with their facets, by id. Not to be changed."""
    return records_in(current_generation())


@lru_cache(maxsize=2)
def records_in(generation: Generation) -> dict[str, Facets]:
    return dict(Standing.objects.order_by("pk").values_list("pk", "facets"))


def with_facet(name: str, value: str) -> list[str]:
    """The published records that have this value of a facet."""
    return [pk for pk, facets in every_record().items() if value in facets[name]]
