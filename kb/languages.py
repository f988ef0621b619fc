"""The two languages of the site: our short names, Django's codes, HTML's tags."""

from __future__ import annotations

from collections.abc import Callable

from django.utils.translation import get_language, override

# Django's language code of each of ours; and back.
DJANGO_LANG = {"en": "en", "zh": "zh-hans"}
SHORT = {code: lang for lang, code in DJANGO_LANG.items()}
HTML_TAG = {"en": "en", "zh": "zh-Hans"}
OTHER = {"en": "zh", "zh": "en"}
OWN_NAME = {"en": "English", "zh": "中文"}


def in_each_language(make: Callable[[], str]) -> dict[str, str]:
    """What `make` gives with each language active, such as a page's address."""
    results = {}
    for lang, code in DJANGO_LANG.items():
        with override(code):
            results[lang] = make()
    return results


def current_lang() -> str:
    """The active language as "en" or "zh"."""
    return SHORT.get(get_language() or "en", "en")
