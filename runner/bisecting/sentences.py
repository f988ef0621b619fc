"""What a bisection found, or how far it is, as sentences in both languages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kb.choices import LANGS
from kb.languages import Text as _
from kb.versions.order import column_labels
from runner.bisecting.search import BAD, GOOD, UNKNOWN
from runner.models import Bisection, Build

FIRST_BAD = _("Last good {before}, first bad {after}.")
FIRST_GOOD = _("Last bad {before}, first good {after}.")
# Where an end has no answer, it is not called good or bad.
FIRST_BAD_AFTER = _("First bad {after}. That {before} is good was only said.")
FIRST_GOOD_AFTER = _("First good {after}. That {before} is bad was only said.")
LAST_GOOD_BEFORE = _("Last good {before}. That {after} is bad was only said.")
LAST_BAD_BEFORE = _("Last bad {before}. That {after} is good was only said.")
NO_END = _("Neither {before} nor {after} has an answer.")
BETWEEN = _("Between them, without an answer: {builds}.")
INSTEAD = _("{end} is not as was said; {build} is, and was taken in its place.")
CONTRADICTED = _("{build} is {answer}, not {said}. Choose another build for that end.")
WORDS = {GOOD: _("good"), BAD: _("bad"), UNKNOWN: _("without an answer")}
REFUSED = _("The repro was changed meanwhile. Start it again.")
LOST = _("Its workers were lost three times without one more step.")
CANCELLED = _("It was cancelled. What ran until then is kept as evidence.")
ASKED = _("So far {count} of {builds} builds have counted.")
TO_LOOK = _("A worker asks the index first which releases there are.")
RELEASES = _("The index is being asked which releases there are.")
INSTALLING = _("torch {release} is being installed.")


def sentence(row: Bisection) -> dict[str, str]:
    """Of one that has ended, what it found or why it did not; else how far it is."""
    return joined(parts(row))


def joined(found: Iterable[dict[str, str]]) -> dict[str, str]:
    texts = list(found)
    return {
        lang: (" " if lang == "en" else "").join(text[lang] for text in texts)
        for lang in LANGS
    }


def parts(row: Bisection) -> Iterator[dict[str, str]]:
    if row.state == Bisection.State.CANCELLED:
        yield CANCELLED.filled()
    elif row.reason == "contradicted":
        said, answer = (WORDS[row.found[name]] for name in ("said", "answer"))
        build = row.found["build"]
        yield CONTRADICTED.filled(build=build, said=said, answer=answer)
    elif row.reason == "no_ends":
        yield row.found["sentences"]
    elif row.reason:
        yield (LOST if row.reason == "lost" else REFUSED).filled()
    elif row.found:
        yield from of_turn(row)
    else:
        if row.builds:
            yield ASKED.filled(count=len(row.steps), builds=len(row.builds))
        elif not row.phase:
            yield TO_LOOK.filled()
        if row.phase:
            release = row.phase.rpartition(" ")[2]
            text = RELEASES if row.phase == "index" else INSTALLING
            yield text.filled(release=release)


def of_turn(row: Bisection) -> Iterator[dict[str, str]]:
    turn, name = row.found, labels(row)
    ends = {side: name.get(turn[side], turn[side]) for side in ("before", "after")}
    yield main(row).filled(**ends)
    if turn["unknown"]:
        builds = ", ".join(name.get(slug, slug) for slug in turn["unknown"])
        yield BETWEEN.filled(builds=builds)
    for end, build in turn["instead"].items():
        yield INSTEAD.filled(end=end, build=build)


def main(row: Bisection) -> _:
    """By which of the two ends have an answer, and which way it turns."""
    before, after = (answered(row, side) is not None for side in ("before", "after"))
    if not before and not after:
        return NO_END
    if row.first == GOOD:
        without = LAST_GOOD_BEFORE if before else FIRST_BAD_AFTER
        return FIRST_BAD if before and after else without
    without = LAST_BAD_BEFORE if before else FIRST_GOOD_AFTER
    return FIRST_GOOD if before and after else without


def answered(row: Bisection, side: str) -> str | None:
    """The build `before` or `after` the turn, if it has an answer of its own."""
    last = {step["build"]: step["answer"] for step in row.steps}
    build: str | None = row.found.get(side)
    return build if last.get(build, UNKNOWN) != UNKNOWN else None


def labels(row: Bisection) -> dict[str, str]:
    """The release where it names one build of the span, else the slug."""
    slugs = {row.installed.get(name, name) for name in row.builds}
    raws = dict(Build.objects.filter(slug__in=slugs).values_list("slug", "raw"))
    return column_labels(raws)
