"""Template tags for verdicts and other texts of a run, in the reader's language."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from kb import badges
from kb.languages import current_lang
from kb.models import Record
from kb.templatetags.kb import (
    join_sentences,
)
from kb.templatetags.verdicts import shape_of, verdict_badge
from runner import sandbox
from runner.evidence import telemetry as telemetry_page
from runner.models import Run, Worker
from runner.pages.grid import Column, Span, Square
from runner.pages.record.answer import RecordAnswer
from runner.templatetags.cells import cell_url

register = template.Library()


@register.simple_tag
def share_url(record: Record, answer: RecordAnswer) -> str:
    """The record in the reader's own language, on the build that is looked at.

    Not on one that lacks the bug: what others open would clear theirs.
    """
    page = reverse("record-neutral", args=[record.pk])
    if not answer.choice or answer.css != "fail":
        return page
    about = {"torch": answer.choice.value, "device": answer.device}
    return f"{page}?{urlencode(about)}"


@register.simple_tag
def check_mark(square: Square, columns: list[Column], record: Record) -> SafeString:
    """What a check shows on one build, or alike on several; links to its evidence."""
    span = Span(columns, [square])
    words: SafeString = format_html('<span class="w">{}</span>', square.text)
    if square.evidence:
        url, title = cell_url(span, record, current_lang()), square.words
        words = format_html('<a href="{}" title="{}">{}</a>', url, title, words)
    return format_html(
        '<span class="v v-{}">{}{}</span>', square.css, shape_of(square), words
    )


@register.simple_tag
def run_badge(run: Run, chip: str = "") -> SafeString:
    """The verdict of a finished run, the state of any other."""
    if not run.verdict:
        return format_html(
            '<span class="quiet">{}</span>', badges.state(run.state, current_lang())
        )
    return verdict_badge(
        run.verdict, run.hits, run.trials, run.repro.fidelity, run.reason, chip
    )


@register.filter
def tier_of(subject: Any) -> sandbox.Tier | None:
    """The tier of a worker, of evidence, or by its letter; None if nothing is known."""
    if isinstance(subject, Worker):
        return sandbox.stored_tier(subject.sandbox) or sandbox.TIERS.get(subject.tier)
    if isinstance(subject, dict):
        layers = (subject.get("limits") or {}).get("layers")
        return sandbox.evidence_tier(str(subject.get("tier")), layers)
    return sandbox.TIERS.get(subject)


@register.filter
def telemetry_lines(telemetry: dict[str, Any]) -> list[str]:
    return list(telemetry_page.lines(telemetry))


@register.filter
def tier_layers(tier: sandbox.Tier) -> str:
    return sandbox.layer_words(tier.layers)[current_lang() == "zh"]


@register.inclusion_tag("runner/_tier.html")
def tier_line(found: Any, *, layers: bool = True) -> dict[str, Any]:
    """Why the tier is no better, what would help and, unless told not to, its layers.

    `found`: a worker, the body of evidence, or a letter.
    """
    held = tier_of(found)
    return {"held": held, "words": tier_words(held, layers=layers) if held else ""}


def tier_words(tier: sandbox.Tier, *, layers: bool) -> SafeString:
    lang = current_lang()
    words = [getattr(tier, f"reason_{lang}"), getattr(tier, f"remedy_{lang}")]
    if layers and tier.layers:
        held = format_html('<span class="mono">{}</span>', tier_layers(tier))
        words.append(held)
    return join_sentences(words)


@register.filter
def origin_words(origin: str) -> str:
    """Who executed what an evidence object tells."""
    if origin == "site":
        return _("this site")
    if origin in ("shipped", "repository"):
        return _("a reviewer's machine, shipped with the record")
    return f"{origin} · " + _("uploaded by a user, not re-run by us")
