"""A record as a document of the index: its tokens, signatures and facets."""

from __future__ import annotations

import json
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from kb.choices import LANGS, SECTIONS
from kb.models import Claim, Record, Repro
from kb.search.reading import masks, tokens
from kb.search.reading.names import names_in
from kb.search.reading.signatures import Signature, read_signatures, read_titles
from kb.search.reading.tokens import analyse

# Stored with each document; a document with another number is indexed again.
ALGORITHM = 1000 * masks.ALGORITHM + tokens.ALGORITHM

# What a word counts by where it stands; in the articles once.
TITLE, SUMMARY, SIGNATURE, SOURCE, CLAIM = 8, 4, 4, 4, 2
# An operator that the repro calls; more calls of it say no more.
CALLED, MOST_CALLED = 2, 4
MAX_WEIGHT = 255
# How many terms there are, and how many of them stand in the title.
HEAD = struct.Struct("<II")
# Bytes of a step from one number to the next.
STEP = 4


# Columns of a SearchDocument, in this order.
Row = tuple[int, str, int, str, bytes]
COLUMNS = "id, record_id, length, signatures, terms"
# The facets stand in the record's standing (kb.models.standing).
FACETS = (
    "SELECT d.id, d.record_id, s.facets FROM kb_searchdocument d "
    "JOIN kb_standing s ON s.record_id = d.record_id"
)


@dataclass(frozen=True)
class Contents:
    """The contents of an indexed record. `length`: in tokens, repeats counted.

    `weights`: how often each token stands there, counted more often in the title, the
    summary, a signature. `sign`: the tokens of signatures that are messages.
    """

    weights: Mapping[str, int]
    title: frozenset[str]
    signatures: tuple[Signature, ...]
    length: int

    @property
    def sign(self) -> frozenset[str]:
        return sign_of(self.signatures)

    def column(self, name: str) -> frozenset[str]:
        """The tokens of a column of the index: any, title or sign."""
        if name == "title":
            return self.title
        return self.sign if name == "sign" else frozenset(self.weights)

    @property
    def keys(self) -> list[str]:
        """The keys of the signatures, each once."""
        return list(dict.fromkeys(key for sign in self.signatures for key in sign.keys))


def sign_of(signatures: Iterable[Signature]) -> frozenset[str]:
    messages = (sign.tokens for sign in signatures if sign.kind == "message")
    return frozenset().union(*messages)


@dataclass(frozen=True)
class Terms:
    """The weights of a document by the numbers of its terms, as they are stored."""

    weights: Mapping[int, int]
    title: frozenset[int]

    def pack(self) -> bytes:
        """Deflated: the title's numbers, then all others, then the weights.

        Of each number the step from the one before, and of all steps first the
        lowest bytes, then the next: so they deflate to half.
        """
        order = sorted(self.title) + sorted(self.weights.keys() - self.title)
        steps = [after - before for before, after in pairwise([0, *order])]
        # Signed: the first of the others may be less than the title's last.
        plain = struct.pack(f"<{len(steps)}i", *steps)
        planes = [plain[at::STEP] for at in range(STEP)]
        weights = bytes(min(self.weights[number], MAX_WEIGHT) for number in order)
        head = HEAD.pack(len(order), len(self.title))
        data = b"".join([head, *planes, weights])
        return zlib.compress(data, zlib.Z_BEST_COMPRESSION)

    @classmethod
    def unpack(cls, packed: bytes) -> Terms:
        data = zlib.decompress(packed)
        count, in_title = HEAD.unpack_from(data)
        plain = bytearray(STEP * count)
        for at in range(STEP):
            start = HEAD.size + at * count
            plain[at::STEP] = data[start : start + count]
        order = list(accumulate(struct.unpack(f"<{count}i", plain)))
        weights = data[HEAD.size + STEP * count :]
        return cls(dict(zip(order, weights, strict=True)), frozenset(order[:in_title]))


class Document:
    """An indexed record; its packed columns are unpacked on first use.

    `number` gives a token's number in the index, 0 for an unknown token.
    """

    def __init__(self, row: Row, number: Callable[[str], int]) -> None:
        self.id, self.record, self.length, self._signatures, self._terms = row
        self._number = number

    @cached_property
    def terms(self) -> Mapping[int, int]:
        """The weights by the numbers of their tokens."""
        return Terms.unpack(bytes(self._terms)).weights

    def weight(self, token: str) -> int:
        """How much the token weighs in this document; 0 where it does not stand."""
        return self.terms.get(self._number(token), 0)

    @cached_property
    def signatures(self) -> tuple[Signature, ...]:
        return unpacked(self._signatures)


def packed(signatures: Iterable[Signature]) -> str:
    return json.dumps([sign.pack() for sign in signatures], ensure_ascii=False)


def unpacked(signatures: str) -> tuple[Signature, ...]:
    return tuple(map(Signature.unpack, json.loads(signatures)))


class Beside(NamedTuple):
    """Texts of a record that stand in rows of their own."""

    # Of its repros.
    sources: list[str]
    # In both languages.
    claims: list[str]


def contents_of(record: Record) -> Contents:
    return contents_of_all([record])[0]


def contents_of_all(records: Collection[Record]) -> list[Contents]:
    """Of each record; what stands beside them is read once for all."""
    beside = texts_beside([record.pk for record in records])
    return [contents_with(record, beside[record.pk]) for record in records]


def texts_beside(ids: Collection[str]) -> dict[str, Beside]:
    found = {pk: Beside([], []) for pk in ids}
    sources = Repro.objects.filter(record__in=ids).order_by("record", "name")
    for pk, source in sources.values_list("record", "source"):
        found[pk].sources.append(source)
    claims = Claim.objects.filter(record__in=ids).order_by("record", "position")
    for pk, *texts in claims.values_list("record", "text_en", "text_zh"):
        found[pk].claims.extend(texts)
    return found


def contents_with(record: Record, beside: Beside) -> Contents:
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
    return Contents(weights, frozenset(title), signatures, sum(weights.values()))


def words_and_names(text: str) -> list[str]:
    return [*analyse(text), *names_in(text)]


def called_in(sources: Iterable[str]) -> dict[str, int]:
    """The operators and modules that repros name."""
    called = Counter(name for source in sources for name in names_in(source))
    return {name: min(CALLED * n, MOST_CALLED) for name, n in called.items()}


def sources_of(record: Record) -> list[str]:
    """How others called it: the titles of the reports."""
    return [f"{entry['title']} {entry.get('url', '')}" for entry in record.sources]


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
