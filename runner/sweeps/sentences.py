"""What a sweep shows, as sentences in both languages. They are made of its cells."""

from __future__ import annotations

from collections.abc import Iterator

from kb.languages import Text as _
from kb.records.conditions import Condition
from runner.sweeps.boundary import Boundary

WHERE = _(
    "It happens in all {bug} cells where {rule}, and in none of the other {clean}."
)
WHERE_ONE = _(
    "It happens in the one cell where {rule}, and in none of the other {clean}."
)
EVERYWHERE = _("It happens in all cells: {bug} of {bug}.")
NOWHERE = _("It happens in no cell: 0 of {judged}.")
UNEXPLAINED = _(
    "It happens in {bug} of {judged} cells, and no simple rule explains which."
)
NO_AXES = _("A sweep takes one or two parameters, such as length=64,128.")
TOO_MANY = _(
    "That is {cells} cells, and a sweep has at most {most}. Take a larger step, or "
    "START..STOP, which looks for the boundary."
)
NOTHING = _("No cell has a verdict.")
CANNOT = _("Cells where it cannot apply: {count}.")
FAILED = _("Cells without a verdict: {count}.")
ALL = _("{first} and {second}")
ANY = _("{first}, or where {second}")


def sentence(boundary: Boundary, lang: str) -> str:
    """Where it happens; what has no verdict is counted apart."""
    space = " " if lang == "en" else ""
    return space.join(parts(boundary, lang))


def parts(boundary: Boundary, lang: str) -> Iterator[str]:
    facts = {
        "bug": boundary.bug,
        "judged": boundary.judged,
        "clean": boundary.clean,
        "rule": rule(boundary.rule, lang),
    }
    yield main(boundary)[lang].format(**facts)
    if boundary.cannot:
        yield CANNOT[lang].format(count=boundary.cannot)
    if boundary.failed:
        yield FAILED[lang].format(count=boundary.failed)


def main(boundary: Boundary) -> _:
    if not boundary.judged:
        return NOTHING
    if not boundary.bug:
        return NOWHERE
    if not boundary.clean:
        return EVERYWHERE
    if not boundary.rule:
        return UNEXPLAINED
    return WHERE if boundary.bug > 1 else WHERE_ONE


def rule(conditions: tuple[Condition, ...], lang: str) -> str:
    """`dtype = bfloat16 and scale ≤ 0.05, or where …`."""
    found = ""
    for condition in conditions:
        one = condition_text(condition, lang)
        found = ANY[lang].format(first=found, second=one) if found else one
    return found


def condition_text(condition: Condition, lang: str) -> str:
    found = ""
    for term in condition:
        found = ALL[lang].format(first=found, second=term) if found else str(term)
    return found
