"""A bisection's page: its steps as they come, and what it found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from django.http import HttpRequest
from django.utils.translation import gettext as _

from kb.languages import current_lang
from kb.models import Record
from runner import access
from runner.bisecting import sentences, steps
from runner.bisecting.search import BAD, GOOD, UNKNOWN
from runner.bisecting.steps import Step
from runner.models import Bisection, Build

LOOKS = {GOOD: "✔", BAD: "✖", UNKNOWN: "∅"}


@dataclass(frozen=True)
class StepRow:
    """A build that counted: where it leads, and how it answered in words.

    `is_build`: whether it has a page, as a release that did not install has none.
    """

    step: Step
    is_build: bool
    sign: str
    answer: str
    how: str


@dataclass(frozen=True)
class BisectionPage:
    row: Bisection
    record: Record
    fidelity: str
    steps: list[StepRow]
    may_cancel: bool

    @property
    def name(self) -> str:
        names = {"id": self.record.id, "good": self.row.good, "bad": self.row.bad}
        return _("%(id)s between %(good)s and %(bad)s") % names

    @property
    def title(self) -> str:
        """What is going on, what it found, or how it ended."""
        if self.row.is_over:
            return self.ending
        if self.row.run:
            return _("Asking %s") % self.row.run.build_id
        return _("Preparing a build") if self.row.phase else _("Waiting for a worker")

    @property
    def ending(self) -> str:
        if self.row.state == Bisection.State.CANCELLED:
            return _("Cancelled")
        if self.row.reason:
            return _("Ended without an answer")
        return self.said[0][current_lang()].rstrip(".。")

    @property
    def rest(self) -> str:
        """What its title does not say; of what was found, often nothing."""
        is_found = bool(self.row.found) and not self.row.reason
        return sentences.joined(self.said[is_found:])[current_lang()]

    @cached_property
    def said(self) -> list[dict[str, str]]:
        return list(sentences.parts(self.row))


def find(bisection_id: UUID) -> Bisection | None:
    rows = Bisection.objects.select_related("run", "record")
    return rows.filter(pk=bisection_id, record__in=Record.objects.visible()).first()


def build(row: Bisection, request: HttpRequest) -> BisectionPage:
    repro = row.record.repros.filter(name=row.repro_name).first()
    slugs = [step["build"] for step in row.steps]
    known = set(Build.objects.filter(slug__in=slugs).values_list("slug", flat=True))
    return BisectionPage(
        row=row,
        record=row.record,
        fidelity=repro.fidelity if repro else "",
        steps=[row_of(step, known) for step in row.steps],
        may_cancel=not row.is_over and access.may_cancel(request, row),
    )


def row_of(step: Step, known: set[str]) -> StepRow:
    words = {
        steps.EVIDENCE: _("by known evidence"),
        steps.RUN: _("run for this"),
        steps.NOTHING: _("not run: %s") % step["reason"],
    }
    return StepRow(
        step=step,
        is_build=step["build"] in known,
        sign=LOOKS[step["answer"]],
        answer=sentences.WORDS[step["answer"]][current_lang()],
        how=words[step["how"]],
    )
