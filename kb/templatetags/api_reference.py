"""Texts of the API's description in templates: in the reader's language where there is
one, with their code and links.
"""

from __future__ import annotations

import re

from django import template
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

from kb.languages import current_lang
from kb.reference.examples import SITE
from kb.reference.types import Type

register = template.Library()
CODE = re.compile(r"`([^`]+)`")
STRONG = re.compile(r"\*\*([^*]+)\*\*")


@register.filter
def described(text: str) -> SafeString:
    """Of the description, whose texts stand in the catalogue by hand; else English."""
    said = gettext(text) if text else ""
    html = STRONG.sub(r"<b>\1</b>", CODE.sub(r"<code>\1</code>", escape(said)))
    if current_lang() != "en" and said == text and text:
        return format_html('<span lang="en">{}</span>', mark_safe(html))  # noqa: S308
    return mark_safe(html)  # noqa: S308


@register.simple_tag
def api_type(kind: Type) -> SafeString:
    """In Python: the page has a thousand of them, and a template each would be slow."""
    choices = format_html_join(" | ", "<code>{}</code>", ((c,) for c in kind.choices))
    parts = [
        kind.words and format_html('<span class="mono">{}</span>', kind.words),
        kind.shape and format_html('<a class="mono" href="#{0}">{0}</a>', kind.shape),
        choices,
        kind.bounds and format_html('<span class="quiet">{}</span>', kind.bounds),
    ]
    return format_html_join(" ", "{}", ((part,) for part in parts if part))


@register.filter
def breakable(path: str) -> SafeString:
    """An address that goes on in the next line after a slash, not within a word."""
    return mark_safe(escape(path).replace("/", "/<wbr>"))  # noqa: S308


@register.filter
def on_site(command: str, base: str) -> str:
    return command.replace(SITE, base)
