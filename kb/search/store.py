"""Records as documents to be found, behind the interface an index would have.

Every visible record is kept in memory, read again when it changes: enough for a
few thousand records.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from kb.choices import LANGS, SECTIONS
from kb.models import Record
from kb.search.signatures import Signature, read_signatures
from kb.search.tokens import analyse, fold, is_common

TITLE, SIGNATURE, BODY = 3, 2, 1
COMMON_WEIGHT = 0.3
NEAREST = 100
POSTINGS_VISITED = 20_000


@dataclass(frozen=True)
class Document:
    """A record's tokens with their weights: title 3, signature 2, text 1."""

    record: str
    weights: Counter[str]
    title: frozenset[str]
    length: int
    signatures: tuple[Signature, ...]
    # Everything as written, folded to lower case, for queries word for word.
    raw: str


class Store(Protocol):
    """What ranking needs to know of all records, and the few worth ranking."""

    average_length: float

    def idf(self, token: str) -> float:
        """How telling a token is among all records."""
        ...

    def having(self, keys: Collection[str]) -> Iterable[Document]:
        """Documents with any of these tokens or keys of signatures."""
        ...

    def nearest(self, weights: Mapping[str, float]) -> Iterable[Document]:
        """The about 100 documents that share most with these weighted tokens."""
        ...


class MemoryStore:
    """An inverted index over documents held in memory."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self.documents = list(documents)
        self._idf: dict[str, float] = {}
        self._postings: dict[str, list[int]] = defaultdict(list)
        for at, document in enumerate(self.documents):
            for token in document.weights:
                self._postings[token].append(at)
            for key in {key for sign in document.signatures for key in sign.keys}:
                self._postings[key].append(at)
        lengths = [document.length for document in self.documents]
        self.average_length = sum(lengths) / len(lengths) if lengths else 1.0

    def idf(self, token: str) -> float:
        """How telling a token is; words common to all error texts count less."""
        if token not in self._idf:
            self._idf[token] = self._rarity(token)
        return self._idf[token]

    def _rarity(self, token: str) -> float:
        found = len(self._postings.get(token, ()))
        rarity = math.log(1 + (len(self.documents) - found + 0.5) / (found + 0.5))
        return rarity * (COMMON_WEIGHT if is_common(token) else 1.0)

    def having(self, keys: Collection[str]) -> list[Document]:
        found = {at for key in keys for at in self._postings.get(key, ())}
        return [self.documents[at] for at in sorted(found)]

    def nearest(self, weights: Mapping[str, float]) -> list[Document]:
        worth = {token: weight * self.idf(token) for token, weight in weights.items()}
        scores: dict[int, float] = defaultdict(float)
        visited = 0
        for token in sorted(worth, key=lambda token: (-worth[token], token)):
            for at in self._postings.get(token, ()):
                scores[at] += worth[token]
                visited += 1
            if visited > POSTINGS_VISITED:
                break
        best = heapq.nsmallest(NEAREST, scores, key=lambda at: (-scores[at], at))
        return [self.documents[at] for at in best]


@dataclass(frozen=True)
class Snapshot:
    """The visible records at one moment, each with when it was last changed."""

    modified: dict[str, datetime]
    documents: dict[str, Document]
    store: MemoryStore


class RecordStore:
    """The store of the visible records; only changed ones are read again."""

    def __init__(self) -> None:
        self._snapshot = Snapshot({}, {}, MemoryStore([]))

    def current(self) -> Store:
        rows = Record.objects.visible()
        modified = dict(rows.values_list("id", "modified"))
        known = self._snapshot
        if modified != known.modified:
            kept = modified.items() & known.modified.items()
            documents = {key: known.documents[key] for key, _ in sorted(kept)}
            changed = rows.exclude(id__in=documents)
            documents |= {row.id: document_of(row) for row in changed.iterator()}
            store = MemoryStore(documents[key] for key in sorted(documents))
            # In one assignment, as another thread may be reading.
            self._snapshot = known = Snapshot(modified, documents, store)
        return known.store


current_store = RecordStore().current


def document_of(record: Record) -> Document:
    titles = " ".join(record.both("title").values())
    signatures = read_signatures(record.signatures)
    signature_text = "\n".join(entry["text"] for entry in record.signatures)
    body = body_of(record)
    title = analyse(titles)
    signature, prose = analyse(signature_text), analyse(body)
    weights: Counter[str] = Counter()
    for tokens, weight in ((title, TITLE), (signature, SIGNATURE), (prose, BODY)):
        for token in tokens:
            weights[token] += weight
    return Document(
        record=record.id,
        weights=weights,
        title=frozenset(title),
        length=len(title) + len(signature) + len(prose),
        signatures=tuple(signatures),
        raw=fold(f"{titles}\n{signature_text}\n{body}").lower(),
    )


def body_of(record: Record) -> str:
    """Names, prose of both languages, and the literal lines of the facts."""
    names = [record.id, record.slug, *record.components, *record.aliases]
    prose = [
        record.text(field, lang) for lang in LANGS for field in ("summary", *SECTIONS)
    ]
    facts = [entry["apply"] for entry in record.workarounds]
    facts += [f"{entry['title']} {entry.get('url', '')}" for entry in record.sources]
    facts += [entry["package"] for entry in record.affected]
    return "\n".join([*names, *record.environment, *prose, *facts])
