"""How near a record is to what a text speaks of: one measure for queries and pastes.

BM25 over all words of the text, their names and synonyms. A record's words count by
where they stand (kb.search.index.documents); words that every error shares are not
discounted here, as a text of words has no others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from kb.search.index.documents import Document
from kb.search.index.store import Store

K1, B = 4.0, 0.5


class Near(NamedTuple):
    """`score`: 0 to 1, of all that the text says; `words`: the most telling shared."""

    record: str
    score: float
    words: tuple[str, ...]


class Text:
    """The words of a text that any record has, each with what it is worth."""

    def __init__(self, weights: Mapping[str, float], store: Store) -> None:
        store.prefetch(list(weights))
        self.store = store
        self.worth = {
            token: weight * store.rarity(documents)
            for token, weight in weights.items()
            if (documents := store.term(token).documents)
        }
        self.numbers = {store.number(token): token for token in self.worth}
        self.worth_of = dict(zip(self.numbers, self.worth.values(), strict=True))
        self.total = math.fsum(self.worth.values())

    def nearest(self) -> list[Document]:
        """The documents that may be near, by their most telling words."""
        return self.store.sharing_most(self.worth, "any")

    def nearness(self, document: Document) -> float:
        """What the document's words are worth of all the text's, 0 to 1."""
        return math.fsum(self._shares(document).values()) / (self.total or 1.0)

    def shares(self, document: Document) -> dict[str, float]:
        """What each shared word is worth in this document."""
        shares = self._shares(document)
        return {self.numbers[number]: share for number, share in shares.items()}

    def _shares(self, document: Document) -> dict[int, float]:
        terms, worth_of = document.terms, self.worth_of
        norm = K1 * (1 - B + B * document.length / self.store.average_length)
        return {
            number: worth_of[number] * n / (n + norm)
            for number in worth_of.keys() & terms.keys()
            if (n := terms[number])
        }
