"""Synonyms: English and Chinese words, names and their short forms.

The words themselves stand in meanings.toml beside this file, with reasons.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from kb.search.reading.tokens import HAN_RUN, analyse_query, fold, singular

Phrase = tuple[str, ...]


def read_meanings(lines: Iterable[str]) -> dict[Phrase, list[Phrase]]:
    """Phrase -> its synonyms. A phrase is its words, or one run of Han characters."""
    synonyms: dict[Phrase, list[Phrase]] = {}
    for line in lines:
        phrases = [phrase_of(part) for part in line.split(" = ")]
        for phrase in phrases:
            listed = synonyms.setdefault(phrase, [])
            listed += [p for p in phrases if p != phrase and p not in listed]
    return synonyms


def phrase_of(text: str) -> Phrase:
    words = fold(text).lower().split()
    return tuple(singular(word) for word in words)


def tokens_of(phrase: Phrase) -> Phrase:
    """The tokens that a document must have to contain the phrase."""
    return tuple(
        token
        for word in phrase
        for token in (analyse_query(word) if HAN_RUN.match(word) else [word])
    )


def read_names(lines: Iterable[str]) -> dict[str, str]:
    """Each name of an operator -> the one that stands for all of them."""
    same = (line.split(" = ") for line in lines)
    return {name: first for first, *others in same for name in others}


MEANINGS = tomllib.loads(
    Path(__file__).with_name("meanings.toml").read_text(encoding="utf-8")
)
SYNONYMS = read_meanings(line for group in MEANINGS["group"] for line in group["mean"])
SAME_NAMES = read_names(
    line for group in MEANINGS["operators"] for line in group["same"]
)
TOKENS_OF_SYNONYMS = {
    phrase: tuple(tokens_of(other) for other in others)
    for phrase, others in SYNONYMS.items()
}
LONGEST = max(map(len, SYNONYMS))
# With which words they begin.
FIRST_WORDS = frozenset(phrase[0] for phrase in SYNONYMS)
# Those in Chinese, the longest first: 梯度爆炸 before 梯度.
HAN_PHRASES = sorted(
    (phrase[0] for phrase in SYNONYMS if HAN_RUN.match(phrase[0])),
    key=len,
    reverse=True,
)


def synonyms_of(phrase: Phrase) -> tuple[Phrase, ...]:
    """The tokens of each synonym; empty for a phrase that the glossary lacks."""
    return TOKENS_OF_SYNONYMS.get(phrase, ())
