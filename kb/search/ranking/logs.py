"""Ranking of documents for a pasted log. Pure; no database.

A log is judged line against line (`kb.search.ranking.log_lines`); BM25F over the whole
log only orders what passed. Official names of errors (kb.search.reading.error_ids)
beat both: a name that contradicts is no match.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kb.search.index.documents import Document
from kb.search.index.inverted import Index
from kb.search.ranking.log_lines import (
    BY_CONFIDENCE,
    Confidence,
    Lines,
    Why,
    all_lines,
)
from kb.search.reading.log import Reading
from kb.search.reading.signatures import Signature
from kb.search.reading.tokens import is_common

K1, B = 1.2, 0.6
EXACT_BONUS = COVERAGE_BONUS = 2.0
ID_BONUS = 3.0
# Words of a record that stand anywhere in the log settle a tie, no more.
CONTEXT_BONUS = 0.5
CONTEXT_WORDS = 300
# Token weights of a log by where a token stands.
IN_ERROR, IN_KEY_LINE, IN_FRAME, IN_FACET = 3.0, 2.0, 1.0, 2.0
MAX_WHY = 10


@dataclass(frozen=True)
class LogMatch:
    record: str
    confidence: Confidence
    score: float
    why: tuple[Why, ...]


@dataclass(frozen=True)
class LogQuery:
    """The tokens of a log.

    `worth`: the value of each token that any record has; `total`: of all tokens.
    `context`: the particular words of the whole log that any record has; the log has
    `words` of them in all.
    """

    worth: Mapping[str, float]
    total: float
    context: frozenset[str]
    words: int


def match_log(reading: Reading, index: Index) -> list[LogMatch]:
    """Every record the log may show, best first."""
    weights = log_weights(reading)
    candidates = (*index.with_keys(index_keys(reading)), *index.nearest(weights))
    documents = {document.record: document for document in candidates}
    lines = Lines(reading, index, list(documents.values()))
    query = log_query(weights, reading.words[:CONTEXT_WORDS], index)
    matches = [
        match
        for document in documents.values()
        if (match := match_document(lines, query, document, index))
    ]
    return sorted(
        matches,
        key=lambda match: (BY_CONFIDENCE[match.confidence], -match.score, match.record),
    )


def log_weights(reading: Reading) -> dict[str, float]:
    """The tokens of a log, each with the weight of its best place."""
    weights: dict[str, float] = {}
    for line in reading.key_lines:
        for token in line.tokens:
            weight = IN_ERROR if line.class_name else IN_KEY_LINE
            weights[token] = max(weight, weights.get(token, 0))
    for line in (*reading.unwrapped, *reading.quotes):
        for token in line.tokens:
            weights.setdefault(token, IN_KEY_LINE)
    for frame in reading.frames:
        weights.setdefault(frame.lower(), IN_FRAME)
    for facet in reading.facets:
        weights.setdefault(facet.lower(), IN_FACET)
    return weights


def index_keys(reading: Reading) -> list[str]:
    keys = {f"fp:{line.fingerprint}" for line in all_lines(reading)}
    keys |= {f"fp:{line.fingerprint_of_text}" for line in all_lines(reading)}
    keys |= {f"facet:{facet}" for facet in reading.facets}
    keys |= {f"id:{name}" for name in reading.ids}
    keys |= {f"word:{word}" for word in reading.words}
    return sorted(keys)


def match_document(
    lines: Lines, query: LogQuery, document: Document, index: Index
) -> LogMatch | None:
    evidence = [best_evidence(lines, sign) for sign in document.signatures]
    by_line: dict[int, Why] = {}
    for item in sorted((item for item in evidence if item), key=Why.order):
        by_line.setdefault(item.line, item)
    why = list(by_line.values())
    if not why:
        return None
    score = relevance(query, document, index)
    score += COVERAGE_BONUS * why[0].coverage
    score += EXACT_BONUS * (why[0].confidence == Confidence.EXACT)
    score += ID_BONUS * any(item.by_name for item in why)
    score += CONTEXT_BONUS * context(query, document)
    return LogMatch(document.record, why[0].confidence, score, tuple(why[:MAX_WHY]))


def best_evidence(lines: Lines, signature: Signature) -> Why | None:
    """The line that shows the signature best, if any does."""
    if signature.kind == "facet":
        return lines.having(signature)
    if signature.kind == "frame":
        # A frame shows where, not what: it only adds to the score.
        return None
    named = lines.naming(signature)
    if named:
        return named
    if signature.kind == "code":
        return lines.holding(signature)
    if signature.kind == "title":
        return lines.titled(signature)
    is_remark = signature.kind == "remark"
    return lines.showing(signature) or (
        lines.remarking(signature) if is_remark else None
    )


# --- relevance -----------------------------------------------------------------------
def log_query(weights: Mapping[str, float], words: list[str], index: Index) -> LogQuery:
    """From the weighted tokens and the words of a log; made once for all documents."""
    values = {token: weight * index.idf(token) for token, weight in weights.items()}
    worth = {token: value for token, value in values.items() if index.having(token)}
    telling = [word for word in words if not is_common(word)]
    context = frozenset(word for word in telling if index.having(word))
    return LogQuery(worth, math.fsum(values.values()), context, len(telling))


def relevance(query: LogQuery, document: Document, index: Index) -> float:
    """BM25F of the document plus the covered share, both relative to the query."""
    norm = K1 * (1 - B + B * document.length / index.average_length)
    frequencies = [
        (value, frequency)
        for token, value in query.worth.items()
        if (frequency := document.weights.get(token, 0))
    ]
    # fsum: the order of the tokens must not change the last digits.
    score = math.fsum(
        value * n * (K1 + 1) / (n + norm) + value for value, n in frequencies
    )
    return score / query.total if query.total else 0.0


def context(query: LogQuery, document: Document) -> float:
    """The share of the log's telling words that the record speaks of, 0 to 1."""
    shared = len(query.context & document.weights.keys())
    return min(1.0, shared / (query.words or 1) * 4)
