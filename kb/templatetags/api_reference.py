"""Texts of the API's description in templates: in the reader's language where there is
one, with their code and links.
"""

from __future__ import annotations

import re

from django import template
from django.utils.html import escape, format_html
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


@register.inclusion_tag("kb/reference/_type.html")
def api_type(kind: Type) -> dict[str, Type]:
    return {"type": kind}


@register.filter
def on_site(command: str, base: str) -> str:
    return command.replace(SITE, base)
