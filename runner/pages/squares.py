"""What a finding shows as one cell of a matrix."""

from __future__ import annotations

from dataclasses import replace

from kb import badges, wording
from kb.choices import Outcome, Verdict
from kb.languages import current_lang
from kb.models import Finding
from runner.pages.grid import Square, from_badge
from runner.pages.observations import group_of

JUDGED = {Verdict.BUG_PRESENT: "bug", Verdict.BUG_ABSENT: "clean"}
CSS = {
    Verdict.BUG_PRESENT: "fail",
    Verdict.BUG_ABSENT: "pass",
    Verdict.NOT_APPLICABLE: "none",
}
# What a check other than the trigger judges.
OUTCOMES = {Outcome.BUG: "bug", Outcome.CLEAN: "clean"}


def row_squares(findings: list[Finding | None]) -> list[Square]:
    """A square per column; one between two equal judged neighbours is "likely"."""
    lang = current_lang()
    squares = [verdict_square(row, lang) if row else None for row in findings]
    return [square or inferred(squares, at, lang) for at, square in enumerate(squares)]


def check_squares(findings: list[Finding | None]) -> list[Square]:
    """The same of one check, where nothing is inferred."""
    lang = current_lang()
    return [check_square(row, lang) if row else untested(lang) for row in findings]


def verdict_square(row: Finding, lang: str) -> Square:
    badge = badges.of_finding(row, lang)
    judged = JUDGED.get(Verdict(row.verdict), "")
    text = wording.STANDINGS[row.verdict][lang]
    shown = from_badge(badge, CSS.get(Verdict(row.verdict), "error"), text)
    return of_finding(shown, row, judged)


def of_finding(square: Square, row: Finding, judged: str) -> Square:
    square = replace(square, judged=judged, evidence=row.evidence)
    return replace(square, hits=row.hits, trials=row.trials)


def inferred(squares: list[Square | None], at: int, lang: str) -> Square:
    before = next((s for s in reversed(squares[:at]) if s and s.judged), None)
    after = next((s for s in squares[at + 1 :] if s and s.judged), None)
    if before and after and before.judged == after.judged:
        badge = badges.likely(before.judged == "bug", lang)
        return replace(from_badge(badge, "inf"), likely=before.judged)
    return untested(lang)


def untested(lang: str) -> Square:
    return from_badge(badges.untested(lang), "none")


def check_square(row: Finding, lang: str) -> Square:
    """What one check showed; of the trigger, the run's verdict."""
    if row.check_name == "trigger":
        return verdict_square(row, lang)
    if not row.outcome:
        return untested(lang)
    shape, css = badges.OUTCOME_LOOKS[Outcome(row.outcome)]
    judged = OUTCOMES.get(Outcome(row.outcome), "")
    face = Square(css.removeprefix("v-"), shape, *check_words(row, judged, lang))
    return of_finding(face, row, judged)


def check_words(row: Finding, judged: str, lang: str) -> tuple[str, str]:
    """What the cell shows, and the same in full."""
    if row.outcome == Outcome.NOT_APPLICABLE:
        badge = badges.NOT_APPLICABLE.badge(lang)
        return badge.word, str(badge.word)
    # Without the bug a workaround is clean in any case: that shows no help.
    shows_help = row.verdict == Verdict.BUG_PRESENT
    if judged and shows_help and group_of(row.check_name) == "workaround":
        helped = wording.HELPED[judged][lang]
        return helped, helped
    words = badges.outcome(row.check_name, row.outcome, lang)
    return wording.CELLS[judged or row.outcome][lang], words
