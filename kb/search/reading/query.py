"""What a query of words asks for. Nothing in it is an operator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kb.search.reading.glossary import HAN_PHRASES, LONGEST, same_as
from kb.search.reading.tokens import (
    HAN_RUN,
    OUTER,
    WORD,
    fold,
    identifiers,
    is_plain,
    singular,
    word_tokens,
)

# In characters; logs are for the other box.
MAX_QUERY = 400
MAX_TERMS = 40
MIN_PREFIX = 3
# A run of so few characters is looked for as it is.
MAX_WHOLE = 3
# What is asked about anything says nothing of the record asked for.
ASKING = re.compile(
    "为什么|怎么办|怎么样|怎么|怎样|如何|什么|请问|是否|有没有|出现|变成|变为|成为"
    "|之后|以后|的时候|时候|一直|突然|问题|求助|解决|原因|[的了吗呢吧是]"
)
# A pair of characters that belong to two words.
ACROSS = 0.3


@dataclass(frozen=True)
class Term:
    """One thing asked for: any of `tokens`; or, for half, all tokens of one other.

    A token that ends in * stands for every token that begins so. `in_parts`: an
    identifier whose parts are asked for too, so that nothing hangs on the whole.
    """

    tokens: tuple[str, ...]
    others: tuple[tuple[str, ...], ...] = ()
    weight: float = 1.0
    in_parts: bool = False

    @property
    def every_token(self) -> tuple[str, ...]:
        return (*self.tokens, *(token for other in self.others for token in other))


@dataclass(frozen=True)
class Query:
    """`text`: folded, in lower case, single spaces. `names`: its identifiers."""

    text: str
    terms: tuple[Term, ...]
    names: tuple[str, ...]


def read_query(text: str) -> Query:
    folded = fold(text)
    terms: dict[tuple[str, ...], Term] = {}
    words: list[list[Term]] = []
    for found in WORD.finditer(folded):
        run = found[0]
        if HAN_RUN.match(run):
            words.append([])
            group = list(_han_terms(run))
        else:
            group = _word_terms(run.strip(OUTER))
            words.append(group)
        for term in group:
            terms.setdefault(term.tokens, term)
    for term in _in_other_words(words):
        terms[term.tokens] = term
    return Query(
        " ".join(folded.lower().split()),
        tuple(terms.values())[:MAX_TERMS],
        tuple(dict.fromkeys(identifiers(text))),
    )


def _word_terms(word: str) -> list[Term]:
    if is_plain(word):
        tokens = [(token, singular(token)) for token in word_tokens(word)]
        return [Term(tuple(dict.fromkeys(pair))) for pair in tokens]
    terms = [Term((token,)) for token in word_tokens(word)]
    if len(terms) > 1:
        terms[0] = replace(terms[0], in_parts=True)
    return terms


def _in_other_words(words: list[list[Term]]) -> Iterator[Term]:
    """The terms of English phrases that the glossary has, with what means the same."""
    heads = [group[0].tokens[-1] if group else "" for group in words]
    for length in range(1, LONGEST + 1):
        for at in range(len(heads) - length + 1):
            others = same_as(tuple(heads[at : at + length]))
            if others:
                for group in words[at : at + length]:
                    group[0] = replace(group[0], others=(*group[0].others, *others))
                    yield group[0]


def _han_terms(run: str) -> Iterator[Term]:
    if len(run) == 1:
        yield Term((f"{run}*",))
        return
    asked = ASKING.sub(" ", run).split() if len(run) > MAX_WHOLE else [run]
    # What remains between words of asking may be one character: too little.
    for piece in [piece for piece in asked if len(piece) > 1] or [run]:
        owner = _owners(piece)
        for at in range(len(piece) - 1):
            first, second = owner[at], owner[at + 1]
            pair = piece[at : at + 2]
            if first and first == second:
                yield Term((pair,), same_as((first[1],)))
            else:
                known = first is not None or second is not None
                yield Term((pair,), weight=ACROSS if known else 1.0)


def _owners(run: str) -> list[tuple[int, str] | None]:
    """For each character (where, which) phrase of the glossary it belongs to."""
    owner: list[tuple[int, str] | None] = [None] * len(run)
    for phrase in HAN_PHRASES:
        at = run.find(phrase)
        while at >= 0:
            span = range(at, at + len(phrase))
            if all(owner[i] is None for i in span):
                for i in span:
                    owner[i] = (at, phrase)
            at = run.find(phrase, at + 1)
    return owner


def prefix_of(term: Term) -> str:
    """What a word that no record has may be the beginning of; "" for the others."""
    word = term.tokens[0]
    usable = len(word) >= MIN_PREFIX and not word.isdigit() and not word.endswith("*")
    return f"{word}*" if usable and word.isascii() else ""
