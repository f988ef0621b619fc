"""The two languages of the site: our short names, Django's codes, HTML's tags."""

from __future__ import annotations

from django.utils.translation import get_language

from kb.models import DJANGO_LANG

SHORT = {code: lang for lang, code in DJANGO_LANG.items()}
HTML_TAG = {"en": "en", "zh": "zh-Hans"}
OTHER = {"en": "zh", "zh": "en"}
OWN_NAME = {"en": "English", "zh": "中文"}


def current_lang() -> str:
    """The active language as "en" or "zh"."""
    return SHORT.get(get_language() or "en", "en")
