"""Rows of verdicts over builds, equal neighbours folded. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.wording.verdicts import Badge


@dataclass(frozen=True)
class Square:
    """One cell of a row. `judged`: "bug", "clean", or "" for neither.

    `likely`: the same for an untested cell between tested neighbours that agree.
    """

    css: str
    shape: str
    shape_css: str
    text: str
    words: str
    judged: str = ""
    evidence: str = ""
    likely: str = ""

    def same_as(self, other: Square) -> bool:
        mine = (self.css, self.shape, self.text, self.words)
        return mine == (other.css, other.shape, other.text, other.words)


@dataclass(frozen=True)
class Span:
    """Equal neighbours: `size` columns from `first` to `last`."""

    square: Square
    size: int
    first: str
    last: str
    flip: str = ""

    @property
    def label(self) -> str:
        return self.first if self.size == 1 else f"{self.first} – {self.last}"


def from_badge(
    badge: Badge, css: str, text: str, *, judged: str = "", evidence: str = ""
) -> Square:
    words = " · ".join(part for part in (badge.word, badge.rest) if part)
    return Square(css, badge.shape, badge.shape_css, text, words, judged, evidence)


def fold(labels: Sequence[str], squares: Sequence[Square]) -> list[Span]:
    """Equal neighbours as one span; a flip is marked where judged ones disagree."""
    spans: list[Span] = []
    judged = ""
    for label, square in zip(labels, squares, strict=True):
        flip = flip_of(judged, square.judged)
        judged = square.judged or judged
        if spans and not flip and spans[-1].square.same_as(square):
            last = spans[-1]
            spans[-1] = Span(last.square, last.size + 1, last.first, label, last.flip)
        else:
            spans.append(Span(square, 1, label, label, flip))
    return spans


def flip_of(before: str, now: str) -> str:
    if not before or not now or before == now:
        return ""
    return "first_bad" if now == "bug" else "first_good"
