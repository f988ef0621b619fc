"""A record's texts in templates, each in the reader's language where there is one."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from kb.models import Record
from kb.pages import prose
from kb.pages.prose import Prose
from kb.templatetags.kb import nanify

register = template.Library()


@register.inclusion_tag("kb/_prose.html")
def prose_of(record: Record, section: str) -> dict[str, object]:
    """A section, with a banner where it stands in the other language."""
    return context_of(prose.section(record, section))


@register.inclusion_tag("kb/_prose.html")
def prose_html(text: Prose) -> dict[str, object]:
    return context_of(text)


def context_of(text: Prose) -> dict[str, object]:
    # Rendered and cleaned when the record was saved (kb.records.rendering).
    return {"html": mark_safe(text.html), "lang": text.lang}  # noqa: S308


@register.simple_tag
def line_of(record: Record, field: str) -> SafeString:
    """Title or summary; in a span that says so where it is in the other language."""
    text, lang = prose.text(record, field)
    if not lang:
        return nanify(text)
    return format_html('<span lang="{}">{}</span>', lang, nanify(text))
