"""A pasted line above the signature it matched: what is the same, what is not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
MAX_CHARS = 1200


@dataclass(frozen=True)
class Piece:
    text: str
    same: bool


@dataclass(frozen=True)
class Alignment:
    line: int
    pasted: list[Piece]
    signature: list[Piece]

    @property
    def signature_text(self) -> str:
        return "".join(piece.text for piece in self.signature)


def align(line: int, pasted: str, signature: str) -> Alignment:
    """Word by word, case aside; long lines are cut, as the page cannot show them."""
    ours = TOKEN.findall(cut(pasted))
    theirs = TOKEN.findall(cut(signature))
    matcher = SequenceMatcher(
        None, [word.lower() for word in ours], [word.lower() for word in theirs], False
    )
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    return Alignment(
        line,
        pieces(ours, [(block.a, block.size) for block in blocks]),
        pieces(theirs, [(block.b, block.size) for block in blocks]),
    )


def cut(text: str) -> str:
    return text if len(text) <= MAX_CHARS else text[:MAX_CHARS] + "…"


def pieces(words: list[str], blocks: list[tuple[int, int]]) -> list[Piece]:
    parts: list[Piece] = []
    at = 0
    for start, size in blocks:
        parts.append(Piece("".join(words[at:start]), same=False))
        parts.append(Piece("".join(words[start : start + size]), same=True))
        at = start + size
    parts.append(Piece("".join(words[at:]), same=False))
    return [piece for piece in parts if piece.text]
