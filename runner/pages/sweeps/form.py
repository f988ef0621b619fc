"""The form that asks where a bug happens: checked here, queued by runner.sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from kb.choices import PARAMETERS, DeviceClass
from kb.languages import current_lang
from kb.models import Record, Repro
from portable import harness
from portable.harness import shown_value
from runner import run_sentences
from runner.access import requester
from runner.pages.run_form import Refusal, ReproForm, refusal_of, require_right
from runner.runs.refusals import RunRefused
from runner.sweeps import queue
from runner.sweeps.axes import BadAxes, read_axes

SHOWN_CHOICES = 2


@dataclass(frozen=True)
class AxisField:
    """A parameter as a text field; `hint` is what could be asked for."""

    key: str
    label: str
    hint: str
    unit: str


@dataclass(frozen=True)
class SweepGroup:
    """The parameters of one repro of the CPU."""

    repro: str
    fields: list[AxisField]


def groups(repros: Iterable[Repro]) -> list[SweepGroup]:
    """Of each repro that can be swept."""
    return [
        SweepGroup(repro.name, list(fields(repro)))
        for repro in repros
        if repro.device == DeviceClass.CPU and repro.header.get("parameters")
    ]


def fields(repro: Repro) -> Iterator[AxisField]:
    for name, declared in repro.header["parameters"].items():
        choices = [shown_value(value) for value in declared.get("choices", ())]
        ends = (shown_value(declared.get(end, "")) for end in ("min", "max"))
        yield AxisField(
            key=field_name(repro.name, name),
            label=str(PARAMETERS.get(name, name)),
            hint=some_of(choices) if choices else "..".join(ends),
            unit=declared.get("unit", ""),
        )


def some_of(choices: list[str]) -> str:
    """As many as a field shows; `*` stands for all of them."""
    return ",".join(
        [*choices[:SHOWN_CHOICES], *("…" if choices[SHOWN_CHOICES:] else "")]
    )


def field_name(repro: str, name: str) -> str:
    return f"axis-{repro}-{name}"


class SweepForm(ReproForm):
    """Also over which values of which parameters, each a field of its own."""

    def axes(self) -> dict[str, Any]:
        """Raises ParameterError, BadAxes."""
        repro = self.cleaned_data["repro"]
        texts = self.texts(field_name(repro.name, ""))
        return read_axes(harness.parse_header(repro.source), texts)


def submit(request: HttpRequest, record: Record) -> str:
    """Queue what the form asks for; its address. Raises Refusal."""
    require_right(request)
    form = SweepForm(record, request.POST)
    if not form.is_valid():
        raise Refusal(_("Choose a repro and a build of this site."), 400)
    data = form.cleaned_data
    lang = current_lang()
    try:
        sweep = queue.submit(
            data["repro"], data["build"], form.axes(), requester(request)
        )
    except harness.ParameterError as error:
        raise Refusal(run_sentences.refused_values_said(error, lang), 400) from error
    except BadAxes as error:
        raise Refusal(error.said[lang], 400) from error
    except RunRefused as error:
        raise refusal_of(error) from error
    return sweep.get_absolute_url()
