"""A capture's page: what was sent, and what it shows on each build."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.utils.html import format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _, ngettext

from kb import badges, wording
from kb.badges import Badge
from kb.findings.strip import Range, ranges_of
from kb.languages import current_lang
from kb.models import Law, Record
from kb.versions import order
from portable.nan_probe.known import FORMS, known_by
from runner.captures import call, known, matrix
from runner.models import Build, Capture, CaptureRun
from runner.runs import admission

STRIP = {"nan": "rs-bug", "inf": "rs-bug", "finite": "rs-ok"}
CSS = {"nan": "v-fail", "inf": "v-fail", "finite": "v-pass", "error": "v-error"}
# What nan_probe says of a function or type that a build has not.
LACKS = re.compile(r"torch \S+ has no (?:type )?([\w.]+)")


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
    outcome: str
    # What the child said (runner.captures.outcome).
    found: dict[str, Any]
    why: str
    law: Law | None

    @property
    def badge(self) -> Badge:
        return badge_of(self.outcome)

    @property
    def heals(self) -> list[str]:
        return list(map(form_of, self.found.get("heals", [])))

    @property
    def no_help(self) -> list[str]:
        return list(map(form_of, self.found.get("does_not_heal", [])))

    @property
    def ways(self) -> Iterator[tuple[str, Badge | str]]:
        """How it ended in other ways: a badge, or of repeats a word."""
        for name, ended in self.found.get("ways", {}).items():
            shown = wording.CAPTURE_ENDS.get(ended)
            label = wording.CAPTURE_WAYS[name] or name
            yield str(label), str(shown) if shown else badge_of(ended)

    @property
    def sentence(self) -> str:
        """How many numbers, or what the build lacks; "" for what torch itself says."""
        found, bad = self.found, self.found.get("nan", 0) + self.found.get("inf", 0)
        total = found.get("total", 0)
        if lacks := LACKS.fullmatch(found.get("said", "")):
            return _("This build has no %(name)s.") % {"name": lacks[1]}
        if self.outcome not in matrix.JUDGED:
            return ""
        said = (
            ngettext(
                "%(bad)d of %(n)d number is not finite.",
                "%(bad)d of %(n)d numbers are not finite.",
                total,
            )
            if bad
            else ngettext(
                "The only number is finite.", "All %(n)d numbers are finite.", total
            )
        )
        return said % {"bad": bad, "n": total}

    @property
    def alike(self) -> int:
        """How many records have this law."""
        return len(known_by(None, self.found.get("law"))[1])


@dataclass(frozen=True)
class CapturePage:
    capture: Capture
    runs: list[CaptureRun]

    @cached_property
    def sent(self) -> dict[str, Any]:
        return dict(json.loads(self.capture.text))

    @cached_property
    def record(self) -> Record | None:
        """Whose trigger has the very slice of this capture."""
        return known.record_of(self.capture)

    @property
    def diagnosis(self) -> str:
        """The name of the record's function that is asked, if one is."""
        found = known.diagnosis_of(self.record, self.capture)
        return found.function if found else ""

    @property
    def function(self) -> str:
        return str(self.sent["call"]["function"])

    @property
    def heading(self) -> str:
        """The function; where a line is too short for it, it breaks behind a dot."""
        parts = self.function.split(".")
        return format_html_join(mark_safe(".<wbr>"), "{}", ([part] for part in parts))

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
            return [_("No tested build fixes it.")]
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

    @cached_property
    def findings(self) -> list[Finding]:
        laws = {law.name: law for law in Law.objects.all()}
        return [
            Finding(
                [self.labels[run.build_id] for run in runs],
                runs[0].outcome,
                runs[0].found,
                str(wording.CAPTURE_CLASSES.get(runs[0].found.get("class", ""), ""))
                or badges.reason_text(runs[0].reason, current_lang()),
                laws.get(runs[0].found.get("law", "")),
            )
            for runs in matrix.groups(self.runs)
        ]

    @property
    def main(self) -> Finding | None:
        """What the cards tell: of the newest builds that are not finite, if any."""
        bad = [one for one in self.findings if one.outcome in matrix.BAD]
        return next(iter(bad or self.findings), None)

    @property
    def others(self) -> list[Finding]:
        return [one for one in self.findings if one is not self.main]

    @property
    def not_run(self) -> list[Build]:
        """Builds of here without a run."""
        known = {run.build_id for run in self.runs}
        return [row for row in admission.installed_builds() if row.slug not in known]

    @property
    def law_query(self) -> str:
        """By which the law's page shows this call and what healed it (kb.pages.law)."""
        sent, found = self.sent["call"], self.main.found if self.main else {}
        forms = FORMS.get(found.get("law", ""), [])
        tried = {
            name: "".join(str(at) for at, one in enumerate(forms) if one in told)
            for name, told in found.items()
            if name in ("heals", "does_not_heal")
        }
        named = {"call": sent["function"], "operands": call.operands(sent)}
        return urlencode(named | tried)

    @property
    def markdown(self) -> str:
        """What one posts below an issue, in English as issues are."""
        rows = [
            f"| {self.labels[run.build_id]} | {english_of(run)} |" for run in self.runs
        ]
        law = f"Law: {self.sent['law']}. Class: {self.sent['class']}."
        heals = "; ".join(f"`{one}`" for one in self.sent["heals"])
        parts = [
            f"```python\n{self.source.rstrip()}\n```",
            f"{law} Heals this very case: {heals or 'nothing that was tried'}.",
            "\n".join(["| torch | this call |", "|---|---|", *rows]),
            f"sha256 {self.capture.digest}",
        ]
        return "\n\n".join(parts) + "\n"


def build(capture: Capture) -> CapturePage:
    return CapturePage(capture, matrix.runs_of(capture))


def badge_of(outcome: str) -> Badge:
    shown = badges.Wording(wording.CAPTURES[outcome], CSS.get(outcome, "v-none"))
    return shown.badge(current_lang())


def form_of(source: str) -> str:
    """What heals, as it is shown: code, or the type in which the call was run."""
    before, _torch, dtype = source.partition("in torch.")
    return _("this call in %(dtype)s") % {"dtype": dtype} if not before else source


def word_of(outcome: str) -> str:
    return str(wording.CAPTURES[outcome].text)


def english_of(run: CaptureRun) -> str:
    said = wording.CAPTURES.get(run.outcome)
    return said.text["en"] if said else run.state
