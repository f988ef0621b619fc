"""The sentence that decides: which record explains which line, and what stays open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kb.choices import SymptomClass
from kb.languages import COMMA, SPACE, Text as _
from kb.lookup.candidate import Candidate
from kb.lookup.facts import Facts
from kb.lookup.symptoms import Shown
from kb.search.reading.figures import LOSS, NORM

EXPLAINS = _("{record} explains {lines}.")
ALSO_OPEN = _("No record explains line {line}: {what}.")
NONE_CERTAIN = _("No record explains line {line} for certain: {what}.")
SYMPTOM = _("“{title}” has several causes; your paste does not show which one.")
LIKELY = _("“{title}” has several causes; your paste points to {cause} first.")
COULD = _("No certain match. Of {n} candidates, test this first: {cause}.")
COULD_ONE = _("No certain match. One candidate is worth a test: {cause}.")
NO_RECORDS = _("This site has no records yet, so it knows no cause.")
NOTHING = _("No known cause explains this.")
NEXT = _("The first checks narrow it down.")
QUOTED = _("“{name}”")
LINE, LINES = _("line {lines}"), _("lines {lines}")
AFTER = _("{what} is {state} after {n} finite steps")
AFTER_ONE = _("{what} is {state} after one finite step")
FROM_START = _("{what} is {state} from the first value on")
SOMEWHERE = _("{what} is {state}")
# Classes that are no NaN: a warning of lost gradients explains none.
NOT_NAN = {
    SymptomClass.LOST_GRAD,
    SymptomClass.WRONG_GRAD,
    SymptomClass.SILENT_WRONG,
    SymptomClass.ERROR,
}
MOST_LINES = 4
Json = dict[str, Any]


def decision(
    sure: Sequence[Candidate],
    candidates: Sequence[Candidate],
    shown: Sequence[Shown],
    facts: Facts,
    law: Json | None = None,
) -> Json:
    """`sure`: each, listed or not; `law`: how a value was made, if nothing is sure."""
    if sure:
        own = [row for at, row in enumerate(sure) if not said_by(sure[:at], row)]
        return joined([*map(explained, own), still_open(sure, facts)])
    bad = what_is_bad(facts)
    parts = [NONE_CERTAIN.filled(line=bad[0], what=bad[1])] if bad else []
    parts.append(of_symptom(candidates, shown) or of_candidates(candidates))
    return joined([law, *parts])


def of_symptom(candidates: Sequence[Candidate], shown: Sequence[Shown]) -> Json | None:
    if not shown:
        return None
    title = shown[0].symptom.both("title")
    first = next(iter(candidates), None)
    if first and first.cause and first.cause.because:
        return LIKELY.filled(title=title, cause=name_of(first))
    return joined([SYMPTOM.filled(title=title), NEXT.filled()])


def of_candidates(candidates: Sequence[Candidate]) -> Json:
    if not candidates:
        return joined([NOTHING.filled(), NEXT.filled()])
    cause = name_of(candidates[0])
    if len(candidates) == 1:
        return COULD_ONE.filled(cause=cause)
    return COULD.filled(n=len(candidates), cause=cause)


def name_of(candidate: Candidate) -> str | Json:
    if candidate.known:
        return candidate.known.row.pk
    if candidate.cause is None:
        return candidate.slug
    return QUOTED.filled(name=candidate.cause.entry["name"])


def said_by(others: Sequence[Candidate], candidate: Candidate) -> bool:
    """Whether others explain all of its lines; the first record always speaks."""
    lines = {line for other in others for line in other.lines}
    return bool(others) and lines.issuperset(candidate.lines)


def explained(candidate: Candidate) -> Json:
    numbers = candidate.lines[:MOST_LINES]
    form = LINE if len(numbers) == 1 else LINES
    listed = {lang: COMMA[lang].join(map(str, numbers)) for lang in COMMA}
    lines = form.filled(lines=listed)
    return EXPLAINS.filled(record=name_of(candidate), lines=lines)


def still_open(sure: Sequence[Candidate], facts: Facts) -> Json | None:
    """A NaN that a record of no NaN cannot explain."""
    bad = what_is_bad(facts)
    about_nan = any(
        row.known and row.known.row.symptom_class not in NOT_NAN for row in sure
    )
    if bad is None or about_nan:
        return None
    return ALSO_OPEN.filled(line=bad[0], what=bad[1])


def what_is_bad(facts: Facts) -> tuple[int, Json] | None:
    """The line of the first value that is not finite, and what it says."""
    first = facts.figures.first_bad
    if first is None:
        return None
    kind, point = first
    name = {LOSS: "loss", NORM: "grad_norm"}[kind]
    n = facts.figures.finite_before(kind)
    state = "nan" if point.value != point.value else "inf"
    if kind in facts.figures.said or facts.figures.is_cut:
        form = SOMEWHERE
    elif n:
        form = AFTER if n > 1 else AFTER_ONE
    else:
        form = FROM_START if facts.figures.is_bad_at_once else SOMEWHERE
    return point.line, form.filled(what=name, state=state, n=n)


def joined(parts: Sequence[Json | None]) -> Json:
    said = [part for part in parts if part]
    return {lang: SPACE[lang].join(part[lang] for part in said) for lang in SPACE}
