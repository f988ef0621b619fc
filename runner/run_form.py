"""The form behind "Run repro": checked here, queued by the ledger."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils.translation import gettext as _
from rest_framework.throttling import BaseThrottle

from kb.languages import current_lang
from kb.models import Record, Repro
from runner import ledger
from runner.models import Build

MAX_TRIALS = 20


class RunForm(forms.Form):
    """Which repro of `record`, on which build, how often; the repro says the device."""

    repro = forms.ModelChoiceField(Repro.objects.none(), to_field_name="name")
    build = forms.ModelChoiceField(Build.objects.all())
    trials = forms.IntegerField(min_value=1, max_value=MAX_TRIALS, required=False)
    again = forms.BooleanField(required=False)

    def __init__(self, record: Record, data: Any) -> None:
        super().__init__(data)
        field = self.fields["repro"]
        assert isinstance(field, forms.ModelChoiceField)  # noqa: S101
        field.queryset = record.repros.all()

    def problem(self) -> str:
        """The first thing wrong with the form, naming its field; "" if none."""
        for name, errors in self.errors.items():
            return f"{name}: {errors[0]}"
        return ""


def may_run(request: HttpRequest) -> bool:
    return settings.RUNS_ANONYMOUS or request.user.is_authenticated


def requester(request: HttpRequest) -> str:
    """Whom a run is counted for: the user, else the address."""
    if not isinstance(request.user, AnonymousUser):
        return f"user:{request.user.pk}"
    # Behind NUM_PROXIES proxies it is what the outermost of them saw.
    ident = BaseThrottle().get_ident(request)  # type: ignore[arg-type]
    return f"address:{ident}"[:120]


class Refusal(Exception):
    """A run that was not queued: why, in the reader's language, and the status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def submit(request: HttpRequest, record: Record) -> ledger.Submitted:
    """Queue what the form asks for. Raises Refusal."""
    if not may_run(request):
        raise Refusal(_("Log in to start runs: this site asks for it."), 403)
    form = RunForm(record, request.POST)
    if not form.is_valid():
        raise Refusal(form.problem(), 400)
    data = form.cleaned_data
    try:
        return ledger.submit(
            data["repro"],
            data["build"],
            data["repro"].device,
            data["trials"] or data["repro"].header.get("trials", 1),
            requester=requester(request),
            again=data["again"],
        )
    except ledger.RunRefused as error:
        text = error.detail_zh if current_lang() == "zh" else error.detail_en
        raise Refusal(text, 503 if error.code == "busy" else 409) from error
