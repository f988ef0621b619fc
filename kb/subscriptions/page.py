"""What an account watches, what it was told, and the form for one thing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _, gettext_lazy

from kb.environments.environment import parse_environment
from kb.languages import current_lang
from kb.models import Delivery, Record, Standing, Subscription
from kb.syndication.feeds import Entry, flip_entry
from kb.telling import changes, mail

Kind = Subscription.Kind
MOST = 100
MOST_CHARS = 64 * 1024
SHOWN = 20
NOTHING = gettext_lazy("Name a record or a component, or paste an environment.")


class WatchForm(forms.Form):
    """One of its three fields, whichever is filled in first."""

    record = forms.CharField(required=False, max_length=20)
    component = forms.CharField(required=False, max_length=100)
    environment = forms.CharField(required=False, max_length=MOST_CHARS)

    def clean_record(self) -> str:
        typed = str(self.cleaned_data["record"]).upper()
        if typed and not Record.objects.visible().filter(pk=typed).exists():
            raise forms.ValidationError(_("There is no record %s.") % typed)
        return typed

    def clean_component(self) -> str:
        typed = str(self.cleaned_data["component"])
        if typed and typed not in components():
            raise forms.ValidationError(_("No record is about %s.") % typed)
        return typed

    def clean_environment(self) -> str:
        pasted = str(self.cleaned_data["environment"])
        if pasted and not parse_environment(pasted).torch_raw:
            raise forms.ValidationError(
                _("No version of torch was found: paste the output of pip freeze.")
            )
        return pasted

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not (any(data.values()) or self.errors):
            raise forms.ValidationError(NOTHING)
        return data

    @property
    def facts(self) -> dict[str, Any]:
        """What is watched, as columns of a subscription."""
        data = self.cleaned_data
        if data["record"]:
            return {"kind": Kind.RECORD, "record_id": data["record"]}
        if data["component"]:
            return {"kind": Kind.COMPONENT, "component": data["component"]}
        return {"kind": Kind.ENVIRONMENT, "environment": data["environment"]}


@dataclass(frozen=True)
class WatchPage:
    """`record`: the one whose page led here. `mails`: whether mail comes."""

    rows: list[Subscription]
    told: list[Entry]
    components: list[str]
    form: WatchForm
    record: str
    mails: bool
    email: str


def components() -> list[str]:
    """Of published records, as their standings name them."""
    mark = "component:"
    found = set()
    for facets in Standing.objects.values_list("facets", flat=True):
        lines = facets.splitlines()
        found |= {line.removeprefix(mark) for line in lines if line.startswith(mark)}
    return sorted(found)


def of(user: User) -> QuerySet[Subscription]:
    return Subscription.objects.filter(user=user)


def build(request: HttpRequest, user: User, form: WatchForm | None = None) -> WatchPage:
    told = Delivery.objects.filter(user=user).select_related("change__record")
    told = told.defer("change__record__html")[:SHOWN]
    return WatchPage(
        rows=list(of(user).select_related("record").defer("record__html")),
        told=[flip_entry(row.change) for row in told],
        components=components(),
        form=form or WatchForm(),
        record=request.GET.get("record", "")[:20],
        mails=mail.reaches(user),
        email=user.email,
    )


def watch(user: User, form: WatchForm) -> bool:
    """Whether it is watched now; False, and the form says so, where it is too much."""
    if of(user).count() >= MOST:
        form.add_error(None, _("You watch %d things; that is the limit here.") % MOST)
        return False
    changes.subscribe(user=user, language=current_lang(), **form.facts)
    return True


def torch_of(row: Subscription) -> str:
    """Which torch a pasted environment has; "" for what is none."""
    return parse_environment(row.environment).torch_raw or ""
