"""Which style sheets a page links to."""

from __future__ import annotations

from django import template
from django.contrib.staticfiles.storage import staticfiles_storage

from kb.style_sheets import SHEETS

register = template.Library()


@register.simple_tag
def style_sheets() -> tuple[str, ...]:
    """One where they were joined, else each, as while one works on them."""
    sheets: tuple[str, ...] = getattr(staticfiles_storage, "sheets", SHEETS)
    return sheets
