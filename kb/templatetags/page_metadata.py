"""What a page says of itself: to browsers, to those who link it, to its readers."""

from __future__ import annotations

import re
from typing import Any

from django import template
from django.contrib.staticfiles.storage import staticfiles_storage
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from kb.addresses import base_address
from kb.models import Record
from kb.pages.style_sheets import SHEETS
from kb.syndication import as_github

register = template.Library()
SPACE = re.compile(r"\s+")


@register.simple_block_tag
def page_title(content: str) -> SafeString:
    """The page's name as title, and as title of a link to it."""
    name = in_attribute(content)
    return format_html(
        '<title>{} · {}</title>\n<meta property="og:title" content="{}">',
        *(name, _("Does it NaN?"), name),
    )


@register.simple_block_tag
def page_description(content: str) -> SafeString:
    words = in_attribute(content)
    return format_html(
        '<meta name="description" content="{}">\n'
        '<meta property="og:description" content="{}">',
        *(words, words),
    )


def in_attribute(content: str) -> SafeString:
    """What a block rendered, on one line. Texts of templates may hold quotes."""
    words = SPACE.sub(" ", content).strip()
    return mark_safe(words.replace('"', "&quot;"))  # noqa: S308


@register.simple_tag(takes_context=True)
def report_address(context: Any, record: Record, about: str) -> str:
    return as_github.report_address(record, base_address(context.request), about)


@register.simple_tag
def style_sheets() -> tuple[str, ...]:
    """One where they were joined, else each, as while one works on them."""
    sheets: tuple[str, ...] = getattr(staticfiles_storage, "sheets", SHEETS)
    return sheets
