"""Whether a reader may keep an answer, for the page of a look-up."""

from __future__ import annotations

from typing import Any

from django import template

from kb.pages.lookup import LookupPage
from kb.sharing import rows

register = template.Library()


@register.simple_tag(takes_context=True)
def may_keep(context: dict[str, Any], page: LookupPage) -> bool:
    """Where there is an answer: an address for nothing would help nobody."""
    return page.found_anything and rows.may_keep(context["request"])
