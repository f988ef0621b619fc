"""How well a document answers a log or a query. Pure; no database.

A log is judged line against line: `coverage` says how much of a signature a pasted
line holds, BM25F over the whole log only orders what passed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kb.search.lognorm import KeyLine, Reading
from kb.search.signatures import Signature
from kb.search.store import Document, Store

K1, B = 1.2, 0.6
MATCH, POSSIBLE = 0.8, 0.55
# Above every share: the whole signature stands in the line.
WORD_FOR_WORD = 2.0
# What a pasted line says beyond the signature counts against it, but less.
EXTRA = 0.3
EXACT_BONUS = COVERAGE_BONUS = 2.0
# Token weights of a log by where a token stands.
IN_ERROR, IN_KEY_LINE, IN_FRAME, IN_FACET = 3.0, 2.0, 1.0, 2.0
MAX_WHY = 10


class Confidence(StrEnum):
    """How sure a match is, best first."""

    EXACT = "exact"
    MATCH = "match"
    POSSIBLE = "possible"
    NONE = "none"


BY_CONFIDENCE = {confidence: at for at, confidence in enumerate(Confidence)}


@dataclass(frozen=True)
class Why:
    """The pasted line (from 1) and the signature that met."""

    line: int
    signature: str
    confidence: Confidence
    coverage: float

    def order(self) -> tuple[int, float, int]:
        return BY_CONFIDENCE[self.confidence], -self.coverage, self.line


@dataclass(frozen=True)
class LogMatch:
    record: str
    confidence: Confidence
    score: float
    why: tuple[Why, ...]


def match_log(reading: Reading, store: Store) -> list[LogMatch]:
    """Every record the log may show, best first."""
    weights = log_weights(reading)
    found = (*store.having(index_keys(reading)), *store.nearest(weights))
    lines = Lines(reading, store)
    matches = [
        match
        for document in {document.record: document for document in found}.values()
        if (match := match_document(reading, lines, weights, document, store))
    ]
    return sorted(
        matches, key=lambda match: (BY_CONFIDENCE[match.confidence], -match.score)
    )


def log_weights(reading: Reading) -> dict[str, float]:
    """The tokens of a log, each with the weight of its best place."""
    weights: dict[str, float] = {}
    for line in reading.key_lines:
        for token in line.tokens:
            weight = IN_ERROR if line.class_name else IN_KEY_LINE
            weights[token] = max(weight, weights.get(token, 0))
    for frame in reading.frames:
        weights.setdefault(frame.lower(), IN_FRAME)
    for facet in reading.facets:
        weights.setdefault(facet, IN_FACET)
    return weights


def index_keys(reading: Reading) -> list[str]:
    keys = [f"fp:{line.fingerprint}" for line in reading.key_lines]
    keys += [f"fp:{line.fingerprint_of_text}" for line in reading.key_lines]
    keys += [f"facet:{facet}" for facet in reading.facets]
    keys += [f"word:{word}" for word in reading.words]
    return keys


def match_document(
    reading: Reading,
    lines: Lines,
    weights: Mapping[str, float],
    document: Document,
    store: Store,
) -> LogMatch | None:
    shown = [shown_by(reading, lines, sign) for sign in document.signatures]
    by_line: dict[int, Why] = {}
    for item in sorted((item for item in shown if item), key=Why.order):
        by_line.setdefault(item.line, item)
    why = list(by_line.values())
    if not why:
        return None
    score = relevance(weights, document, store)
    score += COVERAGE_BONUS * why[0].coverage
    score += EXACT_BONUS * (why[0].confidence == Confidence.EXACT)
    return LogMatch(document.record, why[0].confidence, score, tuple(why[:MAX_WHY]))


def shown_by(reading: Reading, lines: Lines, signature: Signature) -> Why | None:
    """The line that shows the signature best, if any does."""
    if signature.kind == "facet":
        line = reading.facets.get(signature.text)
        return Why(line, signature.text, Confidence.POSSIBLE, 0.0) if line else None
    if signature.kind in ("code", "remark"):
        return lines.holding(signature)
    # A frame shows where, not what: it only adds to the score.
    return lines.showing(signature) if signature.kind == "message" else None


class Lines:
    """The lines of one log, ready to be compared with many signatures."""

    def __init__(self, reading: Reading, store: Store) -> None:
        self.lines = reading.key_lines
        self.store = store
        self.worth = [self.value(line.tokens) for line in self.lines]
        self.complaints = [" ".join(line.text.lower().split()) for line in self.lines]
        self.numbers = [number for number, _ in reading.cleaned]
        self.text = "\n".join(text for _, text in reading.cleaned)

    def value(self, tokens: Iterable[str]) -> float:
        """The summed weight of tokens; the same in whatever order they come."""
        return math.fsum(map(self.store.idf, tokens))

    def holding(self, signature: Signature) -> Why | None:
        """The first line that holds a code or remark word for word.

        Only a code in a line that complains makes a match: what a healthy run
        prints too (a command, a kernel's name) is no more than a hint.
        """
        text = " ".join(signature.text.lower().split())
        if signature.kind == "code":
            for line, complaint in zip(self.lines, self.complaints, strict=True):
                if text in complaint:
                    return Why(line.number, signature.text, Confidence.MATCH, 1.0)
        at = self.text.find(text)
        if at < 0:
            return None
        number = self.numbers[self.text.count("\n", 0, at)]
        return Why(number, signature.text, Confidence.POSSIBLE, 1.0)

    def showing(self, signature: Signature) -> Why | None:
        """The line nearest to a message."""
        best = max(
            self.coverages(signature), key=lambda found: found[0], default=(0.0, 0)
        )
        share, number = best
        if share < POSSIBLE:
            return None
        confidence = Confidence.MATCH if share >= MATCH else Confidence.POSSIBLE
        if share == WORD_FOR_WORD:
            confidence = Confidence.EXACT
        if not signature.is_telling:
            confidence = Confidence.POSSIBLE
        return Why(number, signature.text, confidence, min(share, 1.0))

    def coverages(self, signature: Signature) -> Iterator[tuple[float, int]]:
        """(share, line number): the telling share of the signature a line holds."""
        whole = self.value(signature.tokens)
        for line, worth in zip(self.lines, self.worth, strict=True):
            if is_word_for_word(line, signature):
                yield WORD_FOR_WORD, line.number
                return
            shared = self.value(line.tokens & signature.tokens)
            if shared:
                yield shared / (whole + EXTRA * (worth - shared)), line.number


def is_word_for_word(line: KeyLine, signature: Signature) -> bool:
    """The whole signature stands in the line, apart from what varies."""
    if signature.class_name and signature.class_name != line.class_name:
        return False
    return bool(signature.letters) and signature.letters in line.letters


def relevance(weights: Mapping[str, float], document: Document, store: Store) -> float:
    """BM25F of the document plus the covered share, both relative to the query."""
    total = bm25 = covered = 0.0
    norm = K1 * (1 - B + B * document.length / store.average_length)
    for token, weight in weights.items():
        value = weight * store.idf(token)
        total += value
        frequency = document.weights.get(token, 0)
        if frequency:
            bm25 += value * frequency * (K1 + 1) / (frequency + norm)
            covered += value
    return (bm25 + covered) / total if total else 0.0


@dataclass(frozen=True)
class WordMatch:
    record: str
    score: float


# Below this share of the query's weight a document is not about the query.
ENOUGH = 0.4


def match_words(
    query: str, tokens: list[str], names: list[str], store: Store
) -> list[WordMatch]:
    """Records for words in any language, best first. `query`: folded, lower case."""
    weights = dict.fromkeys(tokens, 1.0)
    total = sum(store.idf(token) for token in tokens)
    matches = []
    for document in store.having(tokens):
        shared = sum(store.idf(token) for token in tokens if token in document.weights)
        if shared < ENOUGH * total:
            continue
        in_title = sum(store.idf(token) for token in tokens if token in document.title)
        score = relevance(weights, document, store) + in_title / total
        score += 2.0 * (query in document.raw)
        if names:
            score += sum(name in document.raw for name in names) / len(names)
        matches.append(WordMatch(document.record, score))
    return sorted(matches, key=lambda match: (-match.score, match.record))
