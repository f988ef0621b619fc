"""Leads: records that speak of what a paste speaks of, where no signature says more.

A lead is no answer. It is what the search would find for the words, operators,
packages and metrics of all parts of a paste together.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kb.search.index.documents import Document
from kb.search.ranking.nearness import Text
from kb.search.reading.names import PREFIX
from kb.search.reading.tokens import HAN_RUN, is_common

MAX_LEADS = 5
# Below this share of what the paste says, and below this share of the first lead, it
# is chance.
NEAR, BESIDE_FIRST = 0.05, 0.35
MIN_SHARED = 2
WHY_WORDS = 6


class Lead(NamedTuple):
    """`words`: what the record shares with the paste, the most telling first."""

    record: str
    score: float
    words: tuple[str, ...]


Near = list[tuple[float, Document]]


def near_of(text: Text) -> Near:
    """The records nearest to a text with their nearness, best first."""
    near = [(text.nearness(document), document) for document in text.nearest()]
    return sorted(near, key=lambda pair: (-pair[0], pair[1].record))


def leads_from(near: Near, text: Text, known: Collection[str] = ()) -> list[Lead]:
    """The nearest, without those that match already."""
    near = [pair for pair in near if pair[1].record not in known]
    least = max(NEAR, BESIDE_FIRST * near[0][0]) if near else NEAR
    needed = min(MIN_SHARED, len(text.worth))
    leads = []
    for score, document in near[:MAX_LEADS]:
        if score < least:
            break
        shares = text.shares(document)
        words = sorted(shares, key=lambda token: (-shares[token], token))
        said = shown(words)
        # Single letters, "nan" or "tensor" alone are in every record: no reason.
        if len(words) >= needed and not all(map(is_common, said)):
            leads.append(Lead(document.record, score, said))
    return leads


def shown(words: list[str]) -> tuple[str, ...]:
    """As they are shown: each once, names without their prefix, no part of another."""
    chosen: list[str] = []
    for word in words:
        if len(chosen) == WHY_WORDS:
            break
        plain = word.removeprefix(PREFIX)
        if len(plain) < 2 and not HAN_RUN.match(plain):
            continue
        if not any(plain in other or other in plain for other in chosen):
            chosen.append(plain)
    return tuple(chosen)
