"""What a page says of itself, once for the browser and once for those who link it."""

from __future__ import annotations

import re

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

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
