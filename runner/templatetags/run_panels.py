"""Pieces of execution on pages: answers, the run panel, matrices, verdict marks."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import ceil
from typing import Any

from django import template
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext as _, ngettext

from kb.languages import current_lang
from kb.models import Record, Repro
from kb.pages import reader_choice
from kb.pages.record import OnOff
from runner.models import Build
from runner.pages import (
    known_builds,
    local_commands,
    matrix,
    record_answer,
    run_page,
    run_panel,
    run_text,
)
from runner.pages.run_page import RunPage
from runner.templatetags.runs import badge_html
from runner.wording import verdicts
from runner.wording.verdicts import Badge

register = template.Library()
Context = dict[str, Any]


@register.inclusion_tag("runner/_answer.html", takes_context=True)
def answer_strip(context: template.Context, record: Record) -> Context:
    """Is the build of ?torch= affected, and what to do about it."""
    reader = reader_choice.of(context["request"])
    return {
        "answer": record_answer.build(record, reader, known_builds.of_page(context)),
        "fixes": fixes_with_a_version(record),
        "record": record,
    }


def fixes_with_a_version(record: Record) -> list[dict[str, Any]]:
    return [fix for fix in record.fixes if fix.get("version")]


@register.inclusion_tag("runner/_run_panel.html", takes_context=True)
def run_form(context: template.Context, record: Record) -> Context:
    """Build picker and Run repro button; without builds, what to do."""
    request = context["request"]
    return {
        "panel": run_panel.build(record, request, known_builds.of_page(context)),
        "record": record,
        "csrf_token": context.get("csrf_token"),
    }


@register.inclusion_tag("kb/_commands.html", takes_context=True)
def repro_commands(
    context: template.Context, repro: Repro, build: Build | None = None
) -> Context:
    """How to run it elsewhere; on the release of `build`, where it is one."""
    request = context["request"]
    return {"commands": local_commands.of_repro(repro, request, build)}


@register.inclusion_tag("runner/_check_matrix.html")
def check_matrix(record: Record) -> Context:
    """Trigger, workarounds and refuted checks over the tested builds."""
    return {"page": matrix.build_check_matrix(record), "record": record}


@register.inclusion_tag("runner/_evidence_table.html")
def evidence_table(record: Record) -> Context:
    """What was run, and where two origins disagree about it."""
    rows = run_page.evidence_rows(record)
    lang = current_lang()
    return {
        "rows": rows,
        "disagreements": [
            (item, [(side.evidence, side.badge(lang)) for side in item.sides])
            for item in run_page.disagreements_among(rows)
        ],
    }


def answer_of(affected: dict[str, Any]) -> Badge:
    """The five answers to "am I affected", of a look-up's `affected`."""
    return record_answer.answer_badge(
        affected["answer"], affected["basis"], current_lang()
    )


@register.simple_tag
def answer_badge(affected: dict[str, Any]) -> SafeString:
    return badge_html(answer_of(affected))


@register.inclusion_tag("runner/_big_badge.html")
def answer_big(affected: dict[str, Any]) -> Context:
    """The same in the answer strip, in the strip's own colour."""
    return {"badge": answer_of(affected)}


@register.inclusion_tag("runner/_mark.html")
def verdict_mark(verdict: str) -> Context:
    """The shape of a verdict alone, beside words that say it."""
    special = {"untested": verdicts.UNTESTED, "model": verdicts.MODEL_SHOWN}
    found = special.get(verdict) or verdicts.wording(verdict, "")
    return {"badge": found.badge(current_lang())}


@register.inclusion_tag("runner/_onoff.html")
def on_off(pair: OnOff) -> Context:
    """without ✖ k/n → with ✔ 0/n, from one evidence object."""
    return {"pair": pair, "helps": pair.applied.outcome == "clean"}


@register.filter
def age(moment: datetime | None) -> str:
    """How long ago, in the reader's words: "12 minutes"."""
    if not moment:
        return ""
    now = timezone.now()
    if now - moment < timedelta(minutes=1):
        return _("less than a minute")
    return timesince(moment, now, depth=1)


@register.filter
def wait_words(seconds: int) -> str:
    """About how long, as one would say it: an estimate has no seconds to spare."""
    if seconds < 10:
        return _("a few seconds")
    if seconds < 90:
        return _("about %(count)d seconds") % {"count": ceil(seconds / 10) * 10}
    if seconds < 90 * 60:
        minutes = round(seconds / 60)
        return ngettext(
            "about %(count)d minute", "about %(count)d minutes", minutes
        ) % {"count": minutes}
    hours = round(seconds / 3600)
    return ngettext("about %(count)d hour", "about %(count)d hours", hours) % {
        "count": hours
    }


@register.filter
def packages(versions: dict[str, str | None]) -> str:
    """ "numpy 2.4.6, triton 3.2.0", without those that are not installed."""
    found = [f"{name} {version}" for name, version in versions.items() if version]
    return ", ".join(found) or "–"


@register.filter
def item_at(items: list[Any], index: int) -> Any:
    return items[index]


@register.filter
def plus(number: float, more: float) -> float:
    return number + more


@register.simple_tag
def plot_name(line: str) -> str:
    names = {"ctl": _("control"), "trg": _("trigger"), "wa": _("workaround")}
    return names.get(line, "")


@register.inclusion_tag("runner/_dots.html")
def trial_dots(hits: int, trials: int) -> Context:
    """One shape per trial, those that showed the bug first."""
    return {"hits": range(hits), "clean": range(trials - hits)}


@register.simple_tag
def run_markdown(page: RunPage, lang: str) -> str:
    """The run as Markdown for an upstream thread, in "en" or "zh"."""
    return run_text.markdown(page, lang)
