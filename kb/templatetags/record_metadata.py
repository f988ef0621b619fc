"""What a record's page says to machines, and where a reader reports about it."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.html import json_script
from django.utils.safestring import SafeString, mark_safe

from kb.models import Record
from kb.syndication import as_github, metadata
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
def report_address(context: Any, record: Record, about: str) -> str:
    return as_github.report_address(
        record, metadata.base_address(context.request), about
    )
