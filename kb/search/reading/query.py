"""A query of words as search terms. Nothing in it is an operator."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

from kb.search.reading.glossary import FIRST_WORDS, HAN_PHRASES, LONGEST, synonyms_of
from kb.search.reading.names import names_in, operator_name
from kb.search.reading.tokens import (
    CACHED_WORDS,
    HAN_RUN,
    MAX_WORD,
    OUTER,
    fold,
    identifiers,
    is_han,
    is_plain,
    runs_of,
    singular,
    word_tokens,
    words_of,
)

# Characters; a longer text is a log, which the look-up reads.
MAX_QUERY = 400
MAX_TERMS = 40
MIN_PREFIX = 3
# A run of so few characters is looked for as it is.
MAX_WHOLE = 3
# Question words, which say nothing about the record that is looked for.
QUESTION_WORDS = re.compile(
    "为什么|怎么办|怎么样|怎么|怎样|如何|什么|请问|是否|有没有|出现|变成|变为|成为"
    "|之后|以后|的时候|时候|一直|突然|问题|求助|解决|原因|[的了吗呢吧是]"
)
# The weight of a pair of characters that belong to two words.
ACROSS_WEIGHT = 0.3
# Words of English grammar that torch has functions of.
FUNCTION_WORDS = frozenset({"all", "any", "where"})
# What an operator's name and a synonym count beside the words themselves.
NAME_WEIGHT, SYNONYM_WEIGHT = 0.5, 0.4


@dataclass(frozen=True)
class Term:
    """One search term: a document has it with any of `tokens`.

    A document with all tokens of one of the `synonyms` has it too, for half the
    worth. A token that ends in * is a prefix. `in_parts`: an identifier whose parts
    are terms of their own, so that a document need not have the whole.
    """

    tokens: tuple[str, ...]
    synonyms: tuple[tuple[str, ...], ...] = ()
    weight: float = 1.0
    in_parts: bool = False

    @property
    def every_token(self) -> tuple[str, ...]:
        return (*self.tokens, *chain.from_iterable(self.synonyms))


@dataclass(frozen=True)
class Query:
    """`text`: folded, in lower case, single spaces. `names`: its identifiers."""

    text: str
    terms: tuple[Term, ...]
    names: tuple[str, ...]


def read_query(text: str) -> Query:
    folded = fold(text)
    return Query(
        " ".join(folded.lower().split()),
        tuple(_terms_of(folded).values())[:MAX_TERMS],
        tuple(dict.fromkeys(identifiers(text))),
    )


def weighted_words(text: str) -> dict[str, float]:
    """What a text of any length speaks of: tokens with their weights.

    Words as they stand, names of operators however written, and synonyms.
    """
    weights: dict[str, float] = {}
    for term in _terms_of(fold(text)).values():
        raise_to(dict.fromkeys(term.tokens, term.weight), weights)
        for phrase in term.synonyms:
            # All that one word may mean counts together as one synonym does.
            share = SYNONYM_WEIGHT * term.weight / len(phrase) / len(term.synonyms)
            raise_to(dict.fromkeys(phrase, share), weights)
    for name in (*names_in(text), *names_among_han(text)):
        weights[name] = NAME_WEIGHT
    return {token: weight for token, weight in weights.items() if token[-1] != "*"}


def raise_to(least: Mapping[str, float], weights: dict[str, float]) -> None:
    """Give each of these tokens at least this weight."""
    for token, weight in least.items():
        if weights.get(token, 0.0) < weight:
            weights[token] = weight


def names_among_han(text: str) -> Iterator[str]:
    """In Chinese text, which has no English grammar, "where" is a name."""
    if not text.isascii() and HAN_RUN.search(text):
        yield from map(operator_name, FUNCTION_WORDS.intersection(words_of(text)))


def _terms_of(folded: str) -> dict[tuple[str, ...], Term]:
    terms: dict[tuple[str, ...], Term] = {}
    words: list[list[Term]] = []
    seen: set[str] = set()
    for run in runs_of(folded):
        if is_han(run):
            words.append([])
            group = list(_han_terms(run))
        else:
            group = list(_word_terms(run.strip(OUTER)[:MAX_WORD]))
            words.append(group)
        if run in seen:
            continue  # as the words of a log are, again and again
        seen.add(run)
        for term in group:
            terms.setdefault(term.tokens, term)
    for term in _terms_with_synonyms(words):
        terms[term.tokens] = term
    return terms


@lru_cache(maxsize=CACHED_WORDS)
def _word_terms(word: str) -> tuple[Term, ...]:
    if is_plain(word):
        tokens = [(token, singular(token)) for token in word_tokens(word)]
        return tuple(Term(tuple(dict.fromkeys(pair))) for pair in tokens)
    terms = [Term((token,)) for token in word_tokens(word)]
    if len(terms) > 1:
        terms[0] = replace(terms[0], in_parts=True)
    return tuple(terms)


def _terms_with_synonyms(words: list[list[Term]]) -> Iterator[Term]:
    """The terms of English phrases in the glossary, with the synonyms added."""
    heads = [group[0].tokens[-1] if group else "" for group in words]
    begun = [at for at, head in enumerate(heads) if head in FIRST_WORDS]
    for length in range(1, LONGEST + 1):
        for at in begun:
            synonyms = synonyms_of(tuple(heads[at : at + length]))
            if synonyms and at + length <= len(heads):
                for group in words[at : at + length]:
                    term = group[0]
                    group[0] = replace(term, synonyms=(*term.synonyms, *synonyms))
                    yield group[0]


def _han_terms(run: str) -> Iterator[Term]:
    if len(run) == 1:
        yield Term((f"{run}*",))
        return
    pieces = QUESTION_WORDS.sub(" ", run).split() if len(run) > MAX_WHOLE else [run]
    # A single character between two question words is too little to look for.
    for piece in [piece for piece in pieces if len(piece) > 1] or [run]:
        owner = _owners(piece)
        for at in range(len(piece) - 1):
            first, second = owner[at], owner[at + 1]
            pair = piece[at : at + 2]
            if first and first == second:
                yield Term((pair,), synonyms_of((first[1],)))
            else:
                is_split = first is not None or second is not None
                yield Term((pair,), weight=ACROSS_WEIGHT if is_split else 1.0)


def _owners(run: str) -> list[tuple[int, str] | None]:
    """For each character, (start, phrase) of the glossary phrase it belongs to."""
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
    """The term as a prefix, for a word no record has; "" where it cannot be one."""
    word = term.tokens[0]
    usable = len(word) >= MIN_PREFIX and not word.isdigit() and not word.endswith("*")
    return f"{word}*" if usable and word.isascii() else ""
