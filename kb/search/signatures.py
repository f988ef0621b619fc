"""A record's signatures, read by the same rules as the logs they are to match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kb.search.facets import metrics_in
from kb.search.lognorm import clean, key_line, message_of, relative
from kb.search.masks import fingerprint
from kb.search.tokens import HAN_RUN, identifiers, is_common, words_of

# A message of fewer letters than this identifies nothing, even word for word.
MIN_LETTERS = 20
MIN_TELLING_TOKENS = 2


@dataclass(frozen=True)
class Signature:
    """One way a record shows in a log.

    `kind`: message (compared by its telling words), code and remark (looked for word
    for word; a remark is a line that complains of nothing), frame, facet.
    """

    kind: str
    text: str
    class_name: str = ""
    letters: str = ""
    tokens: frozenset[str] = frozenset()

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.class_name, self.letters)

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
        """What an index finds this signature by, besides its tokens."""
        if self.kind == "message":
            return [f"fp:{self.fingerprint}"]
        if self.kind in ("code", "remark"):
            # Its longest word: where that is missing the whole cannot stand.
            return [f"word:{max(words_of(self.text), key=len, default='')}"]
        return [f"{self.kind}:{self.text}"]


def read_signatures(entries: Iterable[Mapping[str, str]]) -> list[Signature]:
    """From a record's `signatures` ({"kind", "text"} each)."""
    return [
        signature
        for entry in entries
        for signature in read_signature(entry["kind"], entry["text"])
    ]


def read_signature(kind: str, text: str) -> list[Signature]:
    if kind == "facet":
        return [Signature("facet", text)]
    if kind == "frame":
        return [Signature("frame", relative(text), tokens=frozenset(identifiers(text)))]
    if kind == "code":
        return [Signature("code", text, tokens=key_line(0, "", text).tokens)]
    line = clean(text)
    metrics = metrics_in(line)
    if metrics.are_the_line and metrics.facets:
        return [Signature("facet", facet) for facet in metrics.facets]
    class_name, message = message_of(line, metrics) or ("", "")
    read = key_line(0, class_name, message or line)
    kind = "message" if message else "remark"
    return [Signature(kind, text, class_name, read.letters, read.tokens)]
