"""What a revision changed, word by word: pure functions over stored revisions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from kb.choices import LANGS, SECTIONS
from kb.publishing.rows import BILINGUAL, LISTS, PLAIN

# Han has no spaces: each character counts as a word. A version or a dotted name is one.
WORD = re.compile(r"\s+|[A-Za-z0-9_]+(?:[.+-][A-Za-z0-9_]+)*|.", re.DOTALL)
# Comparing words takes time by the product of both lengths.
MOST_WORDS = 3000
CONTEXT_LINES = 2


@dataclass(frozen=True)
class Piece:
    """Text that stayed, came or went; of `kind` "skipped", how many lines stayed."""

    kind: str  # same, added, removed, skipped
    text: str = ""
    lines: int = 0


@dataclass(frozen=True)
class Change:
    """One column that differs; `lang` is "" for facts, which have no language."""

    field: str
    lang: str
    pieces: list[Piece]


def columns() -> Iterator[tuple[str, str, str]]:
    """(field, lang, column) of all that a record's files hold, in their order."""
    for field in (*BILINGUAL, *SECTIONS):
        for lang in LANGS:
            yield field, lang, f"{field}_{lang}"
    for column in (*PLAIN, *LISTS):
        yield column, "", column


def changed_columns(old: Any, new: Any) -> list[tuple[str, str, str]]:
    """The columns in which two revisions of a record differ."""
    return [
        (field, lang, column)
        for field, lang, column in columns()
        if getattr(old, column) != getattr(new, column)
    ]


def changes(old: Any, new: Any) -> list[Change]:
    """What differs from `old` to `new`, each a stored revision of one record."""
    return [
        Change(field, lang, diff(as_text(old, column), as_text(new, column)))
        for field, lang, column in changed_columns(old, new)
    ]


def as_text(revision: Any, column: str) -> str:
    value = getattr(revision, column)
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2)


def diff(old: str, new: str) -> list[Piece]:
    """Words that stayed, came and went; long stretches that stayed are folded."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    steps = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    pieces: list[Piece] = []
    for number, (kind, a, b, c, d) in enumerate(steps):
        if kind == "equal":
            edges = (number > 0, number < len(steps) - 1)
            pieces += folded(before[a:b], *edges)
        else:
            pieces += word_diff("".join(before[a:b]), "".join(after[c:d]))
    return pieces


def folded(lines: list[str], after_change: bool, before_change: bool) -> list[Piece]:
    """Lines that stayed, without those far from a change."""
    head = CONTEXT_LINES if after_change else 0
    tail = CONTEXT_LINES if before_change else 0
    skipped = len(lines) - head - tail
    if skipped <= 1:
        return [Piece("same", "".join(lines))]
    pieces = [
        Piece("same", "".join(lines[:head])),
        Piece("skipped", lines=skipped),
        Piece("same", "".join(lines[len(lines) - tail :])),
    ]
    return [piece for piece in pieces if piece.text or piece.lines]


def word_diff(old: str, new: str) -> list[Piece]:
    before, after = WORD.findall(old), WORD.findall(new)
    if max(len(before), len(after)) > MOST_WORDS:
        whole = [Piece("removed", old), Piece("added", new)]
        return [piece for piece in whole if piece.text]
    pieces: list[Piece] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            pieces.append(Piece("same", "".join(before[a:b])))
            continue
        pieces += [Piece("removed", "".join(before[a:b]))] if b > a else []
        pieces += [Piece("added", "".join(after[c:d]))] if d > c else []
    return pieces
