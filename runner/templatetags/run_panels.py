"""Template tags of pages with runs: answers, run panel, sweeps, evidence, times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django import template
from django.template.defaultfilters import floatformat
from django.utils import timezone
from django.utils.timesince import timesince
from django.utils.translation import gettext as _

from kb.findings import checks
from kb.findings.results import cells, showing
from kb.languages import current_lang
from kb.models import Record, Repro
from runner.evidence.disagreement import disagreements
from runner.models import Build, Evidence
from runner.pages import (
    environment_facts,
    local_commands,
    phases,
    run_page,
    run_text,
)
from runner.pages.record import (
    answer as record_answer,
    check_matrix as check_matrix_page,
    evidence_groups,
)
from runner.pages.record.check_matrix import CheckMatrix
from runner.pages.record.opening import Opening
from runner.pages.record.run_panel import RunPanel
from runner.pages.run_page import RunPage
from runner.pages.sweeps import form

register = template.Library()
Context = dict[str, Any]


@register.inclusion_tag("runner/_yours.html", takes_context=True)
def answer_strip(
    context: template.Context, record: Record, about: Opening, panel: RunPanel | None
) -> Context:
    """The reader's build: the field for it, whether it is affected, and its run."""
    return {
        "answer": record_answer.build(record, about),
        "record": record,
        "panel": panel,
        "csrf_token": context.get("csrf_token"),
    }


@register.simple_tag
def check_in_table(record: Record | None, check: str) -> str:
    """The title of a workaround or of advice; any other check by its role."""
    if record is None or checks.kind_of(check) == check:
        return phases.label_of(check)
    return checks.title_of(record, check)[current_lang()]


@register.inclusion_tag("runner/_run_panel.html", takes_context=True)
def run_form(
    context: template.Context, record: Record, panel: RunPanel | None
) -> Context:
    """Build picker and Run repro button; without builds, what to do."""
    return {
        "panel": panel,
        "record": record,
        "csrf_token": context.get("csrf_token"),
    }


@register.inclusion_tag("runner/_sweep_form.html", takes_context=True)
def sweep_form(
    context: template.Context, record: Record, panel: RunPanel | None
) -> Context:
    """What starts a sweep; nothing without parameters or a build, or for a GPU."""
    groups = form.groups(panel.repros) if panel and panel.builds else []
    if panel and groups:
        panel = replace(panel, chosen=affected(record, panel))
    token = context.get("csrf_token")
    return {"groups": groups, "panel": panel, "record": record, "csrf_token": token}


def affected(record: Record, panel: RunPanel) -> str:
    """The newest build of this site on which runs show the bug, else the chosen one."""
    bad = showing(cells(record.findings.all()))
    here = [row.build.slug for row in panel.builds if not row.refusal]
    return next((slug for slug in here if slug in bad), panel.chosen)


@register.inclusion_tag("kb/_commands.html", takes_context=True)
def repro_commands(
    context: template.Context,
    repro: Repro,
    build: Build | None = None,
    settings: Sequence[str] = (),
) -> Context:
    """Commands to run it elsewhere, on the release of `build` if it is one."""
    request = context["request"]
    return {"commands": local_commands.of_repro(repro, request, build, settings)}


@register.simple_tag
def check_matrix(record: Record) -> CheckMatrix:
    """Workarounds and refuted checks over the tested builds."""
    return check_matrix_page.build(record)


@register.inclusion_tag("runner/_evidence_table.html")
def evidence_table(record: Record) -> Context:
    """What was run, and where two origins disagree about it."""
    return {
        "groups": evidence_groups.folded(run_page.evidence_rows(record)),
        "disagreements": disagreements(record),
    }


@register.inclusion_tag("runner/_disagreement.html")
def disagreement_notice(record: Record | None, evidence: Evidence) -> Context:
    """Where other origins have other verdicts on the very build of this evidence."""
    items = disagreements(record, evidence) if record else []
    return {"disagreements": items}


@register.inclusion_tag("runner/_environment.html")
def environment(body: dict[str, Any], worker: str = "") -> Context:
    """What a verdict is about: build and machine, how they were held, telemetry."""
    return {
        "facts": environment_facts.short(body, worker),
        "limits": environment_facts.limits(body),
        "body": body,
    }


@register.filter
def age(moment: datetime | None) -> str:
    """The time since a moment in the reader's language: "12 minutes"."""
    if not moment:
        return ""
    now = timezone.now()
    if now - moment < timedelta(minutes=1):
        return _("less than a minute")
    return timesince(moment, now, depth=1)


@register.filter
def ago(moment: datetime | None) -> str:
    """ "12 minutes ago"; "" where it never was."""
    return _("%(age)s ago") % {"age": age(moment)} if moment else ""


@register.filter
def packages(versions: dict[str, str | None]) -> list[str]:
    """ "numpy 2.4.6", …, without those that are not installed."""
    return environment_facts.installed(versions)


@register.filter
def seconds(number: float | None, places: int = 2) -> str:
    return "–" if number is None else f"{floatformat(number, f'{places}u')} s"


@register.filter
def mib(number: int | None) -> str:
    return "–" if number is None else f"{number} MiB"


@register.filter
def item_at(items: list[Any], index: int) -> Any:
    return items[index]


@register.inclusion_tag("runner/_dots.html")
def trial_dots(hits: int, trials: int) -> Context:
    """One shape per trial, those that showed the bug first."""
    return {"hits": range(hits), "clean": range(trials - hits)}


@register.simple_tag(takes_context=True)
def run_markdown(context: template.Context, page: RunPage, lang: str) -> str:
    """The run as Markdown for an upstream thread, in "en" or "zh"."""
    return run_text.markdown(page, lang, context["request"])
