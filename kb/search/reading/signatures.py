"""A record's signatures, read by the same rules as the logs they are to match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kb.search.reading.cleaning import clean
from kb.search.reading.error_ids import error_ids
from kb.search.reading.glossary import MEANINGS
from kb.search.reading.log import key_line, message_of, relative
from kb.search.reading.masks import MASK, fingerprint, masked, normalised
from kb.search.reading.symptom_facets import metrics_in
from kb.search.reading.tokens import HAN_RUN, identifiers, is_common, words_of

# Messages that any NaN brings about, whatever made it.
OF_MANY_CAUSES = frozenset(
    key_line(0, "", entry["text"]).letters for entry in MEANINGS["symptom"]
)
# A message of fewer letters than this identifies nothing, even word for word.
MIN_LETTERS = 20
MIN_TELLING_TOKENS = 2
# How the facet of anomaly mode's line begins; the op follows, which is an official
# name, but for the one that stands for anything compiled.
OP = "nan_in_"
WHOLE_GRAPH = "CompiledFunctionBackward"
# Sources that people have opened about the symptom, not about its mending.
THREADS = ("report", "discussion")
# "[Bug]: " and the like before a title.
LABEL = re.compile(r"^(?:\s*\[[^\]]{1,40}\]:?)+\s*")


class Signature(NamedTuple):
    """One way a record shows in a log.

    `kind`: message (compared by its telling words), code and remark (looked for word
    for word; a remark is a line that complains of nothing), frame, facet, and title:
    of a thread among the sources, which people paste though no program prints it.
    `ids` are the official names of errors in it.
    """

    kind: str
    text: str
    class_name: str = ""
    letters: str = ""
    tokens: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.class_name, self.letters)

    @property
    def has_many_causes(self) -> bool:
        """It names a symptom, so that even word for word it is no proof."""
        return self.letters in OF_MANY_CAUSES

    @property
    def is_telling(self) -> bool:
        """Long and particular enough to stand for a record on its own."""
        han = sum(map(len, HAN_RUN.findall(self.letters)))
        particular = [token for token in self.tokens if not is_common(token)]
        return (
            len(self.letters) + 2 * han >= MIN_LETTERS
            and len(particular) >= MIN_TELLING_TOKENS
        )

    @property
    def keys(self) -> list[str]:
        """The keys of this signature in the index, besides its tokens."""
        keys = [f"id:{name}" for name in sorted(self.ids)]
        if self.kind == "message":
            return [f"fp:{self.fingerprint}", *keys]
        if self.kind in ("remark", "title"):
            return [f"fp:{self.fingerprint}", f"word:{rarest_word(self.text)}", *keys]
        if self.kind == "code":
            return [f"word:{rarest_word(self.text)}", *keys]
        return [f"{self.kind}:{self.text}"]

    def pack(self) -> list[Any]:
        """As a list of strings, for JSON; `unpack` reads it."""
        *texts, tokens, ids = self
        return [*texts, " ".join(sorted(tokens)), " ".join(sorted(ids))]

    @classmethod
    def unpack(cls, row: list[Any]) -> Signature:
        *texts, tokens, ids = row
        return cls._make([*texts, frozenset(tokens.split()), frozenset(ids.split())])


def rarest_word(text: str) -> str:
    """The word without which the whole cannot stand: a name, else the longest."""
    unmasked = masked(text).replace(MASK, " ")
    text = unmasked if words_of(unmasked) else normalised(text)
    return max(identifiers(text) or words_of(text), key=len, default="")


def plain(text: str) -> str:
    """As texts are compared word for word: case, spaces and quotes unified."""
    return " ".join(normalised(text).lower().split())


def read_signatures(entries: Iterable[Mapping[str, str]]) -> list[Signature]:
    """From a record's `signatures` ({"kind", "text"} each)."""
    return [
        signature
        for entry in entries
        for signature in read_signature(entry["kind"], entry["text"])
    ]


def read_titles(sources: Iterable[Mapping[str, str]]) -> list[Signature]:
    """The titles of a record's threads, where they say enough to be recognised."""
    return [
        title
        for source in sources
        if source["kind"] in THREADS
        and (title := read_title(source["title"])).is_telling
        and has_words(title.text)
    ]


def has_words(title: str) -> bool:
    """More than one name, whose parts alone would make it telling."""
    han = sum(map(len, HAN_RUN.findall(title)))
    return han + sum(not is_common(word) for word in words_of(title)) > 1


def read_title(text: str) -> Signature:
    key = key_line(0, "", clean(text))
    return Signature("title", text, "", key.letters, key.tokens)


def facet(name: str) -> Signature:
    op = name.removeprefix(OP)
    ids = {f"op:{op}"} if op not in (name, WHOLE_GRAPH) else ()
    return Signature("facet", name, ids=frozenset(ids))


def read_signature(kind: str, text: str) -> list[Signature]:
    if kind == "facet":
        return [facet(text)]
    if kind == "frame":
        return [Signature("frame", relative(text), tokens=frozenset(identifiers(text)))]
    if kind == "code":
        key = key_line(0, "", text)
        return [Signature("code", text, "", key.letters, key.tokens, error_ids(text))]
    line = clean(text)
    metrics = metrics_in(line)
    if metrics.are_the_line and metrics.facets:
        return [facet(name) for name in metrics.facets]
    class_name, message = message_of(line, metrics) or ("", "")
    key = key_line(0, class_name, message or line)
    kind = "message" if message else "remark"
    return [Signature(kind, text, class_name, key.letters, key.tokens, key.ids)]
