"""Which builds lie between the two ends that somebody names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kb.releases import sides
from runner.bisecting.search import BAD, GOOD
from runner.bisecting.subject import Subject


class SpanError(Exception):
    """The ends name no builds to look between; the text says what to do."""


@dataclass(frozen=True)
class Span:
    """`builds`, or releases to install, from the older end; `first`: what it is."""

    builds: list[str]
    first: str


def between(subject: Subject, order: Sequence[str], good: str, bad: str) -> Span:
    """`order`: `Subject.candidates`. Raises SpanError."""
    ends = {
        GOOD: places(subject, order, good),
        BAD: places(subject, order, bad),
    }
    first = min(ends, key=lambda name: ends[name][0])
    last = max(ends, key=lambda name: ends[name][-1])
    low, high = ends[first][0], ends[last][-1]
    if first == last or low == high:
        raise SpanError("Name two ends: a build without the bug and another with it.")
    return Span(list(order[low : high + 1]), first)


def places(subject: Subject, order: Sequence[str], text: str) -> list[int]:
    """Where the build, or the builds of the release, stand in this order."""
    side = sides.find(text)
    name = side.name if side else text
    raws = [subject.raw.get(slug, slug) for slug in order]
    found = [
        at
        for at, (slug, raw) in enumerate(zip(order, raws, strict=True))
        if name in (slug, raw, raw.partition("+")[0])
    ]
    if not found:
        raise SpanError(
            f"{name}: neither a result of this repro nor an installation here. "
            f"There are: {', '.join(order) or '-'}."
        )
    return found
