"""What a record's page says to machines, and where a reader reports about it."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.html import json_script
from django.utils.safestring import SafeString, mark_safe

from kb.choices import Verdict
from kb.models import Record
from kb.syndication import embedding, metadata
from kb.syndication.cards import content

register = template.Library()


@register.simple_tag(takes_context=True)
def article_data(context: Any, record: Record) -> SafeString:
    """JSON-LD, which no browser executes; escaped as `json_script` does."""
    data = metadata.article(record, metadata.base_address(context["request"]))
    script = json_script(data)
    return mark_safe(  # noqa: S308
        script.replace("application/json", "application/ld+json", 1)
    )


@register.simple_tag(takes_context=True)
def card_of(context: Any, record: Record) -> dict[str, str]:
    """The picture that a link to the record shows, and what stands on it."""
    card = content.of_record(record)
    base = metadata.base_address(context["request"])
    return {"url": base + content.address(record, card), "alt": card.alt}


@register.simple_tag(takes_context=True)
def oembed_address(context: Any, record: Record) -> str:
    base = metadata.base_address(context["request"])
    return embedding.discovery(record, base)


SHAPES = {
    Verdict.BUG_PRESENT: ("fail", "✖", "sh-x"),
    Verdict.BUG_ABSENT: ("pass", "✔", "sh-y"),
    Verdict.NOT_APPLICABLE: ("none", "∅", "sh-n"),
    Verdict.ERROR: ("error", "▲", "sh-e"),
}


@register.inclusion_tag("kb/_verdict_sign.html")
def verdict_sign(verdict: Verdict) -> dict[str, str]:
    """Its shape in its colour, without words."""
    css, shape, shape_css = SHAPES[verdict]
    return {"css": css, "shape": shape, "shape_css": shape_css}


@register.simple_tag(takes_context=True)
def report_address(context: Any, record: Record) -> str:
    base = metadata.base_address(context["request"])
    return metadata.report_address(record, base)
