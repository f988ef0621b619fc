"""Which builds lie between the two ends that somebody names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from kb.languages import Text as _
from kb.releases import sides
from runner.bisecting.search import BAD, GOOD
from runner.bisecting.subject import Subject
from runner.builds import index

TWO_ENDS = _("Name two ends: one that is good and another that is bad.")
NO_SUCH_END = _(
    "{name}: neither a result of this repro nor an installation here. There are: "
    "{builds}."
)


class SpanError(Exception):
    """The ends name no builds to look between; the text says what to do.

    `unknown`: the one of them that is nothing that is known here, or "".
    """

    def __init__(self, sentences: dict[str, str], unknown: str = "") -> None:
        super().__init__(sentences["en"])
        self.sentences = sentences
        self.unknown = unknown


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
        raise SpanError(TWO_ENDS.filled())
    return Span(list(order[low : high + 1]), first)


def missing(subject: Subject, order: Sequence[str], ends: Sequence[str]) -> list[str]:
    """Those of these ends that are neither a build nor a release of this order."""
    return [name for name in ends if not found_places(subject, order, name)]


def is_release(text: str) -> bool:
    """Whether an index could offer it, such as 2.4.1; a build has its CUDA, too."""
    try:
        version = Version(text)
    except InvalidVersion:
        return False
    return bool(index.final([version])) and not version.local


def places(subject: Subject, order: Sequence[str], text: str) -> list[int]:
    """Where the build, or the builds of the release, stand in this order."""
    found = found_places(subject, order, text)
    if not found:
        builds = ", ".join(order) or "-"
        said = NO_SUCH_END.filled(name=name_of(text), builds=builds)
        raise SpanError(said, unknown=text)
    return found


def name_of(text: str) -> str:
    side = sides.find(text)
    return side.name if side else text


def found_places(subject: Subject, order: Sequence[str], text: str) -> list[int]:
    name = name_of(text)
    raws = [subject.raw.get(slug, slug) for slug in order]
    return [
        at
        for at, (slug, raw) in enumerate(zip(order, raws, strict=True))
        if name in (slug, raw, raw.partition("+")[0])
    ]
