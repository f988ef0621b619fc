"""The form that asks which release began a bug; runner.bisecting queues it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext as _

from kb.languages import current_lang
from kb.models import Finding, Record, Repro
from kb.requester import requester
from runner import access
from runner.bisecting import queue, search, span
from runner.bisecting.search import BAD, GOOD
from runner.bisecting.span import SpanError
from runner.bisecting.subject import Subject
from runner.pages.record.run_panel import RunPanel
from runner.pages.run_form import Refusal, ReproForm, refusal_of, require_right
from runner.runs import refusals
from runner.runs.refusals import RunRefused


@dataclass(frozen=True)
class Option:
    """A build that may be an end; `known`: how it answered, or "" if nobody ran it."""

    slug: str
    known: str


@dataclass(frozen=True)
class BisectionGroup:
    """The builds of one repro, newest first, and the ends that evidence suggests.

    `refusal`: why the button is off, or "".
    """

    repro: str
    options: list[Option]
    good: str
    bad: str
    may_install: bool
    refusal: str


def groups(panel: RunPanel, request: HttpRequest) -> list[BisectionGroup]:
    """Of each repro that judges builds."""
    repros = [repro for repro in panel.repros if not repro.is_model]
    return [group_of(repro, panel, request) for repro in repros]


def group_of(repro: Repro, panel: RunPanel, request: HttpRequest) -> BisectionGroup:
    known = subject_of(repro, panel)
    here = runnable(repro, panel)
    order = known.candidates(here)
    answers = [(slug, answer_of(known, slug)) for slug in order]
    good, bad = suggested(answers)
    return BisectionGroup(
        repro=repro.name,
        options=[Option(slug, answer) for slug, answer in reversed(answers)],
        good=good,
        bad=bad,
        may_install=access.may_install(request.user),
        refusal=refusal(panel, order, request),
    )


def subject_of(repro: Repro, panel: RunPanel) -> Subject:
    """Of what the record's page has read anyway."""
    rows: dict[str, Finding] = {
        row.build: row
        for row in repro.record.findings.all()
        if row.is_standing_verdict
        and (row.repro, row.device_class) == (repro.name, repro.device)
    }
    raw = {choice.build.slug: choice.build.raw for choice in panel.builds}
    raw |= {slug: row.build_raw for slug, row in rows.items()}
    return Subject(repro, repro.device, raw, rows)


def runnable(repro: Repro, panel: RunPanel) -> list[str]:
    """Installed builds on which it could be run; the panel asked for its own device."""
    if repro.device != panel.device:
        return []
    return [row.build.slug for row in panel.builds if not row.refusal]


def answer_of(known: Subject, slug: str) -> str:
    row = known.known.get(slug)
    uncertain = search.is_uncertain(known.hits)
    if row is None:
        return ""
    return search.answer_of(row.verdict, row.trials, uncertain=uncertain)


def suggested(answers: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """A good and a bad build: between which it began, else between which it ended.

    Where nothing turned yet, the oldest build is taken for good.
    """
    if began := turn(answers, GOOD, BAD):
        return began
    if ended := turn(answers, BAD, GOOD):
        return ended[1], ended[0]
    slugs = [slug for slug, _answer in answers] or [""]
    bad = [slug for slug, answer in answers[1:] if answer == BAD]
    return slugs[0], (bad or slugs[-1:])[0]


def turn(
    answers: Sequence[tuple[str, str]], first: str, last: str
) -> tuple[str, str] | None:
    """The oldest pair of known builds that answer so, one behind the other."""
    before = ""
    for slug, answer in answers:
        if answer == first:
            before = slug
        elif answer == last and before:
            return before, slug
    return None


def refusal(panel: RunPanel, order: Sequence[str], request: HttpRequest) -> str:
    if not panel.may_run:
        return _("This site lets only known users start runs.")
    if len(order) < 2 and not access.may_install(request.user):
        return _("Fewer than two builds have a result or are installed here.")
    return ""


class BisectionForm(ReproForm):
    """Which repro of `record`, between which ends.

    An end that is typed, a release to install, goes before the build that is chosen.
    """

    good = forms.CharField(max_length=61, required=False)
    bad = forms.CharField(max_length=61, required=False)
    good_release = forms.CharField(max_length=61, required=False)
    bad_release = forms.CharField(max_length=61, required=False)
    install = forms.BooleanField(required=False)

    def __init__(self, record: Record, data: Any) -> None:
        super().__init__(record, data)
        del self.fields["build"]

    def ends(self) -> tuple[str, str]:
        data = self.cleaned_data
        good, bad = (data[f"{name}_release"] or data[name] for name in (GOOD, BAD))
        return good, bad


def submit(request: HttpRequest, record: Record) -> str:
    """Queue what the form asks for; its address. Raises Refusal."""
    require_right(request)
    form = BisectionForm(record, request.POST)
    if not form.is_valid() or not all(form.ends()):
        raise Refusal(_("Choose a repro and two builds."), 400)
    data, lang = form.cleaned_data, current_lang()
    if data["install"] and not access.may_install(request.user):
        raise Refusal(refusals.INSTALLS_NOTHING[lang], 403)
    ends = (*form.ends(), requester(request))
    try:
        row = queue.submit(data["repro"], *ends, install=data["install"])
    except SpanError as error:
        raise Refusal(why_not(error, form, request), 400) from error
    except RunRefused as error:
        raise refusal_of(error) from error
    return row.get_absolute_url()


def why_not(error: SpanError, form: BisectionForm, request: HttpRequest) -> str:
    """What is wrong with the ends, and whether it is only that one is not here."""
    said = error.sentences[current_lang()]
    would_help = span.is_release(error.unknown) and not form.cleaned_data["install"]
    if not (would_help and access.may_install(request.user)):
        return said
    return f"{said} {_('To have it installed, tick the box for that.')}"
