"""Rows of verdicts over builds, equal neighbours folded. Pure."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise

from kb.badges import Badge
from kb.versions.order import build_order, column_labels

# Of a build's slug: the release as it is written there, and what tells apart the
# builds of one release.
SLUG = re.compile(r"(\d[0-9a-z.]*)-(.+)")


@dataclass(frozen=True)
class Column:
    """A build. `label` names it alone: its release where no other build has it.

    `gpus`: the names of those that something was run on with it.
    """

    slug: str
    label: str
    gpus: tuple[str, ...] = ()

    @property
    def release(self) -> str:
        named = SLUG.fullmatch(self.slug)
        return named[1] if named else self.slug

    @property
    def variant(self) -> str:
        """ "cu124" of 2.6.0-cu124; "" where the slug has no such part."""
        named = SLUG.fullmatch(self.slug)
        return named[2] if named else ""


@dataclass(frozen=True)
class Release:
    """A head of the matrix, with its builds below."""

    name: str
    columns: list[Column]
    has_page: bool = False


@dataclass(frozen=True)
class Square:
    """One cell of a row. `judged`: "bug", "clean", or "" for neither.

    `text` is what the cell shows, `words` says it in full. Counts are told apart by
    neither: builds that show the same are equal, however often each was asked.
    `likely`: like `judged`, for an untested cell between tested ones that agree.
    """

    css: str
    shape: str
    text: str
    words: str
    judged: str = ""
    evidence: str = ""
    likely: str = ""
    hits: int = 0
    trials: int = 0

    def same_as(self, other: Square) -> bool:
        mine = (self.css, self.shape, self.text, self.words)
        return mine == (other.css, other.shape, other.text, other.words)


@dataclass(frozen=True)
class Span:
    """Neighbouring builds that show the same; `squares` has one for each."""

    columns: list[Column]
    squares: list[Square]
    flip: str = ""
    # In how many columns of the table it stands, where that is not one per build.
    width: int = 0

    @property
    def colspan(self) -> int:
        return self.width or self.size

    @property
    def square(self) -> Square:
        return self.squares[0]

    @property
    def size(self) -> int:
        return len(self.columns)

    @property
    def label(self) -> str:
        return range_label(self.columns[0], self.columns[-1])

    @property
    def hits(self) -> int:
        return sum(square.hits for square in self.squares)

    @property
    def trials(self) -> int:
        return sum(square.trials for square in self.squares)


def columns_of(raw: Mapping[str, str]) -> list[Column]:
    """Builds, slug -> raw version, oldest version first."""
    ordered = sorted(raw, key=lambda slug: build_order(raw[slug], slug))
    labels = column_labels({slug: raw[slug] for slug in ordered})
    return [Column(slug, labels[slug]) for slug in ordered]


def releases_of(columns: Sequence[Column], tested: Container[str]) -> list[Release]:
    """The same columns, each release with its builds. `tested` have pages."""
    return [
        Release(name, list(builds), name in tested)
        for name, builds in groupby(columns, key=lambda column: column.release)
    ]


def range_label(oldest: Column, newest: Column) -> str:
    """ "2.13.0", or the first and the last of several."""
    same = oldest.label == newest.label
    return oldest.label if same else f"{oldest.label} – {newest.label}"


def folded_heads(rows: Sequence[Sequence[Span]]) -> list[list[Column]]:
    """The builds of rows side by side as far as no row tells them apart."""
    ends = {end for spans in rows for end in accumulate(span.size for span in spans)}
    columns = [column for span in rows[0] for column in span.columns] if rows else []
    return [columns[start:end] for start, end in pairwise([0, *sorted(ends)])]


def over_heads(spans: Sequence[Span], heads: Sequence[Sequence[Column]]) -> list[Span]:
    """The same spans, each as wide as the folded heads above it."""
    firsts = [head[0] for head in heads]
    return [
        replace(span, width=sum(first in span.columns for first in firsts))
        for span in spans
    ]


def from_badge(badge: Badge, css: str, text: str = "") -> Square:
    words = " · ".join(part for part in (badge.word, badge.rest) if part)
    return Square(css, badge.shape, text or words, words)


def fold(columns: Sequence[Column], squares: Sequence[Square]) -> list[Span]:
    """Equal neighbours as one span; a flip is marked where judged ones disagree."""
    spans: list[Span] = []
    judged = ""
    for column, square in zip(columns, squares, strict=True):
        flip = flip_of(judged, square.judged)
        judged = square.judged or judged
        if spans and not flip and spans[-1].square.same_as(square):
            spans[-1].columns.append(column)
            spans[-1].squares.append(square)
        else:
            spans.append(Span([column], [square], flip))
    return spans


def flip_of(before: str, now: str) -> str:
    if not before or not now or before == now:
        return ""
    return "first_bad" if now == "bug" else "first_good"
