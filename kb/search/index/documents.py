"""A record as a document of the index: its tokens, signatures and keys."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from kb.choices import FRAMEWORKS, LANGS, SECTIONS
from kb.models import Claim, Record, Repro
from kb.records.framework_lines import repro_of
from kb.search.reading import masks, tokens
from kb.search.reading.names import names_in
from kb.search.reading.signatures import Signature, read_signatures, read_titles
from kb.search.reading.tokens import analyse

# Kept with each document; one that was read by another number is read again.
ALGORITHM = 1000 * masks.ALGORITHM + tokens.ALGORITHM

# What a word counts by where it stands; in the articles once.
TITLE, SUMMARY, SIGNATURE, SOURCE, CLAIM = 8, 4, 4, 4, 2
# An operator that the repro calls; more calls of it say no more.
CALLED, MOST_CALLED = 2, 4
MAX_WEIGHT = 255


@dataclass(frozen=True)
class Document:
    """What one record is found by.

    `weights`: how often each token stands in it, counted more often in the title, the
    summary, a signature; `title`: the tokens of the title; `length`: in tokens,
    repeats counted.
    """

    record: str
    length: int
    weights: Mapping[str, int]
    title: frozenset[str]
    signatures: tuple[Signature, ...]

    @cached_property
    def sign(self) -> frozenset[str]:
        """The tokens of signatures that are messages."""
        return sign_of(self.signatures)

    @cached_property
    def keys(self) -> frozenset[str]:
        """What finds a signature for certain: fingerprints, names, facets."""
        return frozenset(key for sign in self.signatures for key in sign.keys)

    def pack(self) -> str:
        """All but the record, as JSON; `unpack` reads it."""
        found = {
            "length": self.length,
            "weights": self.weights,
            "title": sorted(self.title),
            "signatures": [sign.pack() for sign in self.signatures],
        }
        return json.dumps(found, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def unpack(cls, record: str, text: str) -> Document:
        found: dict[str, Any] = json.loads(text)
        signatures = tuple(map(Signature.unpack, found["signatures"]))
        title = frozenset(found["title"])
        return cls(record, found["length"], found["weights"], title, signatures)


def sign_of(signatures: Iterable[Signature]) -> frozenset[str]:
    messages = (sign.tokens for sign in signatures if sign.kind == "message")
    return frozenset().union(*messages)


class Beside(NamedTuple):
    """Texts of a record that stand in rows of their own."""

    # Of its repros.
    sources: list[str]
    # In both languages.
    claims: list[str]


def documents_of(records: Collection[Record]) -> list[Document]:
    """Of each record; what stands beside them is read once for all."""
    beside = texts_beside([record.pk for record in records])
    return [document_with(record, beside[record.pk]) for record in records]


def texts_beside(ids: Collection[str]) -> dict[str, Beside]:
    found = {pk: Beside([], []) for pk in ids}
    repros = Repro.objects.filter(record__in=ids).order_by("record", "name")
    # A framework's own classes say nothing of the bug.
    repros = repros.exclude(name__in=map(repro_of, FRAMEWORKS))
    for pk, source in repros.values_list("record", "source"):
        found[pk].sources.append(source)
    claims = Claim.objects.filter(record__in=ids).order_by("record", "position")
    for pk, *texts in claims.values_list("record", "text_en", "text_zh"):
        found[pk].claims.extend(texts)
    return found


def document_with(record: Record, beside: Beside) -> Document:
    signatures = (
        *read_signatures(record.signatures),
        *read_titles(record.sources),
    )
    title = words_and_names(" ".join(record.both("title").values()))
    quoted = "\n".join(entry["text"] for entry in record.signatures)
    claims = "\n".join(preconditions_of(record) + beside.claims)
    texts = (
        (title, TITLE),
        (words_and_names(" ".join(record.both("summary").values())), SUMMARY),
        (words_and_names(quoted), SIGNATURE),
        (words_and_names("\n".join(sources_of(record))), SOURCE),
        (words_and_names(claims), CLAIM),
    )
    weights = Counter(words_and_names(body_of(record)))
    for words, weight in texts:
        for token, times in Counter(words).items():
            weights[token] += weight * times
    weights.update(called_in(beside.sources))
    for token in sign_of(signatures):
        weights[token] = weights[token] or SIGNATURE
    return Document(
        record.pk,
        sum(weights.values()),
        {token: min(n, MAX_WEIGHT) for token, n in weights.items()},
        frozenset(title),
        signatures,
    )


def words_and_names(text: str) -> list[str]:
    return [*analyse(text), *names_in(text)]


def called_in(sources: Iterable[str]) -> dict[str, int]:
    """The operators and modules that repros name."""
    called = Counter(name for source in sources for name in names_in(source))
    return {name: min(CALLED * n, MOST_CALLED) for name, n in called.items()}


def sources_of(record: Record) -> list[str]:
    """How others called it. What a line for a framework rests on tells nothing."""
    lines = {
        line["source"]
        for entry in record.workarounds
        for line in entry.get("lines", {}).values()
    }
    return [
        f"{entry['title']} {entry.get('url', '')}"
        for entry in record.sources
        if entry["id"] not in lines
    ]


def preconditions_of(record: Record) -> list[str]:
    """What it takes, in both languages."""
    return [text for entry in record.preconditions for text in entry["text"].values()]


def body_of(record: Record) -> str:
    """Names, the articles of both languages, and the literal lines of the facts."""
    names = [record.id, record.slug, *record.components, *record.aliases]
    prose = [record.text(field, lang) for lang in LANGS for field in SECTIONS]
    facts = [entry["apply"] for entry in record.workarounds]
    facts += [entry["package"] for entry in record.affected]
    return "\n".join([*names, *record.environment, *prose, *facts])
