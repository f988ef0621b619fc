"""A capture's page: what was sent, and what it shows on each build."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.utils.translation import gettext as _, ngettext

from kb import badges, wording
from kb.badges import Badge
from kb.findings.strip import Range, ranges_of
from kb.languages import current_lang
from kb.models import Law
from kb.versions import order
from runner.captures import call, matrix
from runner.models import Capture, CaptureRun

STRIP = {"nan": "rs-bug", "inf": "rs-bug", "finite": "rs-ok"}
CSS = {"nan": "v-fail", "inf": "v-fail", "finite": "v-pass", "error": "v-error"}
COMMAND = "python nan_probe.py capture.json"


@dataclass(frozen=True)
class Cell:
    """One build of the strip; while it waits or runs, its state."""

    run: CaptureRun
    label: str
    is_yours: bool

    @property
    def css(self) -> str:
        return STRIP.get(self.run.outcome, "")

    @property
    def badge(self) -> Badge:
        return badge_of(self.run.outcome)

    @property
    def word(self) -> str:
        outcome = self.run.outcome
        return word_of(outcome) if outcome else str(wording.STATES[self.run.state])


@dataclass(frozen=True)
class Finding:
    """What several builds show alike."""

    builds: list[str]
    badge: Badge
    why: str
    law: Law | None
    law_name: str
    heals: list[str]
    no_help: list[str]
    said: str


@dataclass(frozen=True)
class CapturePage:
    capture: Capture
    runs: list[CaptureRun]

    @cached_property
    def sent(self) -> dict[str, Any]:
        return dict(json.loads(self.capture.text))

    @property
    def function(self) -> str:
        return str(self.sent["call"]["function"])

    @property
    def is_over(self) -> bool:
        return all(run.is_over for run in self.runs)

    @property
    def waiting(self) -> int:
        return sum(not run.is_over for run in self.runs)

    @cached_property
    def source(self) -> str:
        return call.source(self.sent["call"])

    @property
    def numbers(self) -> int:
        return call.numbers_of(self.sent["call"])

    @property
    def command(self) -> str:
        return COMMAND

    @cached_property
    def labels(self) -> dict[str, str]:
        return order.column_labels({run.build_id: run.build.raw for run in self.runs})

    @property
    def title(self) -> str:
        """How many builds show what; or that it waits."""
        judged = [run for run in self.runs if run.outcome in matrix.JUDGED]
        if not judged:
            return _("no outcome yet") if self.waiting else _("no outcome")
        bad = [run for run in judged if run.outcome in matrix.BAD]
        shown = bad or judged
        names = {
            "word": " / ".join(dict.fromkeys(word_of(run.outcome) for run in shown)),
            "k": len(shown),
            "n": len(judged),
        }
        return (
            ngettext(
                "%(word)s on %(k)d of %(n)d build",
                "%(word)s on %(k)d of %(n)d builds",
                len(judged),
            )
            % names
        )

    @property
    def ranges(self) -> list[Range[Cell]]:
        """The strip: builds in their order, in ranges of the same word."""
        raw = self.sent["environment"]["torch"]
        cells = [
            Cell(
                run,
                # A cell has room for a release.
                order.release_of(run.build.raw) or run.build_id.partition("-")[0],
                run.build.raw == raw,
            )
            for run in self.runs
        ]
        return ranges_of(cells)

    @property
    def turns(self) -> list[str]:
        """First bad and first good; that nothing turns, where that is known."""
        found = matrix.turns(self.runs)
        judged = [run for run in self.runs if run.outcome in matrix.JUDGED]
        if found or len(judged) < 2:
            return [self.turn_said(turn) for turn in found]
        if judged[0].outcome in matrix.BAD:
            return [_("No build that ran heals it.")]
        return [_("Finite on every build that ran.")]

    def turn_said(self, turn: matrix.Turn) -> str:
        said = (
            _("First bad: %(after)s (%(word)s); %(before)s was finite.")
            if turn.is_bad
            else _("First good: %(after)s (%(word)s); %(before)s was not finite.")
        )
        return said % {
            "after": self.labels[turn.after.build_id],
            "before": self.labels[turn.before.build_id],
            "word": word_of(turn.after.outcome),
        }

    @property
    def findings(self) -> Iterator[Finding]:
        laws = {law.name: law for law in Law.objects.all()}
        for group in matrix.groups(self.runs):
            found = group.found
            kind = wording.CAPTURE_CLASSES.get(found.get("class", ""))
            reason = reason_of(group.runs[0].reason)
            yield Finding(
                builds=[self.labels[run.build_id] for run in group.runs],
                badge=badge_of(group.outcome),
                why=str(kind) if kind else reason,
                law=laws.get(found.get("law", "")),
                law_name=found.get("law", ""),
                heals=found.get("heals", []),
                no_help=found.get("does_not_heal", []),
                said=found.get("said", ""),
            )


def build(capture: Capture) -> CapturePage:
    return CapturePage(capture, matrix.runs_of(capture))


def badge_of(outcome: str) -> Badge:
    shown = badges.Wording(wording.CAPTURES[outcome], CSS.get(outcome, "v-none"))
    return shown.badge(current_lang())


def word_of(outcome: str) -> str:
    return str(wording.CAPTURES[outcome].text)


def reason_of(reason: str) -> str:
    return badges.reason_text(reason, current_lang())
