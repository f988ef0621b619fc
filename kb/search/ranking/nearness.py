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
from kb.search.index.inverted import Index

K1, B = 6.0, 0.5


class Near(NamedTuple):
    """`score`: 0 to 1, of all that the text says; `words`: the most telling shared."""

    record: str
    score: float
    words: tuple[str, ...]


class Text:
    """The words of a text that any record has, each with what it is worth."""

    def __init__(self, weights: Mapping[str, float], index: Index) -> None:
        self.index = index
        self.worth = {
            token: weight * index.rarity(documents)
            for token, weight in weights.items()
            if (documents := index.frequency(token))
        }
        self.total = math.fsum(self.worth.values())

    def nearest(self) -> list[Document]:
        """The documents that may be near, by their most telling words."""
        return self.index.sharing_most(self.worth, "any")

    def nearness(self, document: Document) -> float:
        """What the document's words are worth of all the text's, 0 to 1."""
        return math.fsum(self.shares(document).values()) / (self.total or 1.0)

    def shares(self, document: Document) -> dict[str, float]:
        """What each shared word is worth in this document."""
        weights, worth = document.weights, self.worth
        norm = K1 * (1 - B + B * document.length / self.index.average_length)
        return {
            token: worth[token] * n / (n + norm)
            for token in worth.keys() & weights.keys()
            if (n := weights[token])
        }
