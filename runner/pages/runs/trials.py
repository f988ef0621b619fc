"""How many trials a repro needs: one for a certain bug, else enough to see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, log

from django.utils.translation import gettext as _, ngettext

from kb.choices import Verdict
from kb.models import Finding, Repro
from runner.limits import MAX_TRIALS

# How sure a run wants to be to see a bug that only shows now and then.
CERTAINTY = 0.95


@dataclass(frozen=True)
class Trials:
    """The number a form begins with, and the sentence that says why."""

    default: int
    reason: str


def trials_of(repro: Repro, findings: Iterable[Finding]) -> Trials:
    """`findings` of the record. What runs have shown counts above the header."""
    asked = int(repro.header.get("trials", 1))
    shown = [
        row
        for row in findings
        if row.repro == repro.name
        and row.is_fresh_verdict
        and row.verdict == Verdict.BUG_PRESENT
    ]
    hits = sum(row.hits for row in shown)
    trials = sum(row.trials for row in shown)
    if hits < trials:
        count = max(asked, enough(hits / trials))
        return Trials(count, now_and_then(hits, trials))
    if asked > 1:
        return Trials(asked, by_chance(asked))
    return Trials(asked, every_time(trials))


def enough(rate: float) -> int:
    """Trials of which one shows the bug with CERTAINTY, as far as may be asked for."""
    return min(MAX_TRIALS, ceil(log(1 - CERTAINTY) / log(1 - rate)))


def now_and_then(hits: int, trials: int) -> str:
    return _(
        "The bug does not show in every trial: so far in %(hits)d of %(trials)d."
    ) % {"hits": hits, "trials": trials}


def by_chance(asked: int) -> str:
    return _("The bug may be random: the record's author set %(count)d trials.") % {
        "count": asked
    }


def every_time(trials: int) -> str:
    """Nothing where nobody saw the bug yet."""
    if not trials:
        return ""
    return ngettext(
        "The bug showed in the one trial so far; one is enough.",
        "The bug showed in each of %(count)d trials so far; one is enough.",
        trials,
    ) % {"count": trials}
