"""Whether a reader may keep an answer, for the page of a look-up."""

from __future__ import annotations

from typing import Any

from django import template

from kb.sharing import rows

register = template.Library()


@register.simple_tag(takes_context=True)
def may_keep(context: dict[str, Any]) -> bool:
    request = context.get("request")
    return request is not None and rows.may_keep(request)
