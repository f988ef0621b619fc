"""A record as a document of the index: its tokens, signatures and facets."""

from __future__ import annotations

import json
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from kb.choices import LANGS, SECTIONS
from kb.models import Record
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


def contents_of(record: Record) -> Contents:
    signatures = (
        *read_signatures(record.signatures),
        *read_titles(record.sources),
    )
    title = " ".join(record.both("title").values())
    texts = (
        (title, TITLE),
        (" ".join(record.both("summary").values()), SUMMARY),
        ("\n".join(entry["text"] for entry in record.signatures), SIGNATURE),
        ("\n".join(sources_of(record)), SOURCE),
        ("\n".join(claims_of(record)), CLAIM),
        (body_of(record), 1),
    )
    weights: Counter[str] = Counter()
    for text, weight in texts:
        for token in (*analyse(text), *names_in(text)):
            weights[token] += weight
    weights.update(called_in(record))
    for token in sign_of(signatures):
        weights[token] = weights[token] or SIGNATURE
    in_title = frozenset((*analyse(title), *names_in(title)))
    return Contents(weights, in_title, signatures, sum(weights.values()))


def called_in(record: Record) -> dict[str, int]:
    """The operators and modules that its repros name."""
    sources = record.repros.order_by("name").values_list("source", flat=True)
    called = Counter(name for source in sources for name in names_in(source))
    return {name: min(CALLED * n, MOST_CALLED) for name, n in called.items()}


def sources_of(record: Record) -> list[str]:
    """How others called it: the titles of the reports."""
    return [f"{entry['title']} {entry.get('url', '')}" for entry in record.sources]


def claims_of(record: Record) -> list[str]:
    """What is claimed of it and what it takes, in both languages."""
    texts = [text for entry in record.preconditions for text in entry["text"].values()]
    rows = record.claims.order_by("position").values_list("text_en", "text_zh")
    return texts + [text for row in rows for text in row]


def body_of(record: Record) -> str:
    """Names, the articles of both languages, and the literal lines of the facts."""
    names = [record.id, record.slug, *record.components, *record.aliases]
    prose = [record.text(field, lang) for lang in LANGS for field in SECTIONS]
    facts = [entry["apply"] for entry in record.workarounds]
    facts += [entry["package"] for entry in record.affected]
    return "\n".join([*names, *record.environment, *prose, *facts])
