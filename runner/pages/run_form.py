"""The form behind "Run repro": checked here, queued by the ledger."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _, gettext_lazy

from kb.languages import COLON, current_lang
from kb.models import Record, Repro
from portable import harness
from runner import access, run_sentences
from runner.access import requester
from runner.limits import MAX_TRIALS
from runner.models import Build
from runner.pages.jobs import parameter_form
from runner.runs import submission
from runner.runs.refusals import RunRefused

STATUS = {"busy": 503, "throttled": 429}
# A page that was open for long offers what is no longer there.
GONE = {"invalid_choice": gettext_lazy("it is not here; load the page again")}


class ReproForm(forms.Form):
    """Which repro of `record`, on which build; the repro says the device."""

    repro = forms.ModelChoiceField(
        Repro.objects.none(), to_field_name="name", error_messages=GONE
    )
    build = forms.ModelChoiceField(Build.objects.all(), error_messages=GONE)

    def __init__(self, record: Record, data: Any) -> None:
        super().__init__(data)
        field = self.fields["repro"]
        assert isinstance(field, forms.ModelChoiceField)  # noqa: S101
        field.queryset = record.repros.all()

    def texts(self, start: str) -> dict[str, str]:
        """What is in the fields whose names begin so, by the rest of their names."""
        return {
            key.removeprefix(start): str(text)
            for key, text in self.data.items()
            if key.startswith(start) and str(text).strip()
        }


class RunForm(ReproForm):
    """Also how often, and with which values."""

    trials = forms.IntegerField(min_value=1, max_value=MAX_TRIALS, required=False)
    again = forms.BooleanField(required=False)

    def values(self) -> dict[str, Any]:
        """Values of the chosen repro's parameters. Raises ParameterError."""
        repro = self.cleaned_data["repro"]
        texts = self.texts(parameter_form.field_name(repro, ""))
        return harness.read_values(harness.parse_header(repro.source), texts)

    def problem(self) -> str:
        """The first thing wrong with a form that is not valid, naming its field."""
        name, errors = next(iter(self.errors.items()))
        names = {"repro": _("repro"), "build": _("torch build"), "trials": _("trials")}
        return f"{names[name]}{COLON[current_lang()]}{errors[0]}"


class Refusal(Exception):
    """A run that was not queued: why, in the reader's language, and the status."""

    def __init__(self, text: str, status: int, wait_s: int = 0) -> None:
        super().__init__(text)
        self.status = status
        self.wait_s = wait_s


def require_right(request: HttpRequest) -> None:
    """Raises Refusal for whom may start nothing here."""
    if access.may_run(request.user):
        return
    if request.user.is_authenticated:
        raise Refusal(_("Your account may not start runs."), 403)
    raise Refusal(_("Log in to start runs. This site requires it."), 403)


def refusal_of(error: RunRefused) -> Refusal:
    """In the reader's language."""
    status = STATUS.get(error.code, 409)
    return Refusal(error.detail(current_lang()), status, error.wait_s)


def submit_to(request: HttpRequest, record: Record) -> str:
    """Queue what the form asks for; its address. Raises Refusal."""
    submitted = submit(request, record)
    address = submitted.run.get_absolute_url()
    return flagged(address, "cached") if submitted.cached else address


def flagged(address: str, flag: str) -> str:
    """Of a run's page that says how one came to it."""
    return f"{address}{'&' if '?' in address else '?'}{flag}=1"


def submit(request: HttpRequest, record: Record) -> submission.Submitted:
    require_right(request)
    form = RunForm(record, request.POST)
    if not form.is_valid():
        raise Refusal(form.problem(), 400)
    data = form.cleaned_data
    try:
        return submission.submit(
            data["repro"],
            data["build"],
            data["repro"].device,
            data["trials"] or data["repro"].header.get("trials", 1),
            requester=requester(request),
            again=data["again"],
            values=form.values(),
        )
    except harness.ParameterError as error:
        text = run_sentences.refused_values_said(error, current_lang())
        raise Refusal(text, 400) from error
    except RunRefused as error:
        raise refusal_of(error) from error


def refused(
    request: HttpRequest, record: Record, refusal: Refusal, title: str
) -> HttpResponse:
    """The page that says why nothing was started, and when to come back."""
    context = {"record": record, "refusal": refusal, "title": title}
    response = render(request, "runner/refused.html", context, status=refusal.status)
    if refusal.wait_s:
        response.headers["Retry-After"] = str(refusal.wait_s)
    return response
