"""The two languages of the site: our short names, Django's codes, HTML's tags."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from django.utils.functional import lazystr
from django.utils.translation import get_language, gettext, override, pgettext

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

# Django's language code of each of ours; and back.
DJANGO_LANG = {"en": "en", "zh": "zh-hans"}
SHORT = {code: lang for lang, code in DJANGO_LANG.items()}
HTML_TAG = {"en": "en", "zh": "zh-Hans"}
OTHER = {"en": "zh", "zh": "en"}
OWN_NAME = {"en": "English", "zh": "中文"}
# What stands between sentences, clauses and words; Chinese tells words of a list apart.
SPACE = {"en": " ", "zh": ""}
COLON = {"en": ": ", "zh": "："}
SEMICOLON = {"en": "; ", "zh": "；"}
COMMA = {"en": ", ", "zh": "，"}
LIST_COMMA = {"en": ", ", "zh": "、"}


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


@dataclass(frozen=True)
class Text:
    """A text of the catalogue with both languages at hand: `text["zh"]`, `dict(text)`.

    `str(text)` is in the active language. Imported as `_`, so that makemessages finds
    what it is called with.
    """

    message: str
    context: str = ""

    def __getitem__(self, lang: str) -> str:
        return translated(self.message, self.context, lang)

    def __str__(self) -> str:
        return self[current_lang()]

    def keys(self) -> Iterator[str]:
        return iter(DJANGO_LANG)

    def filled(self, **names: object) -> dict[str, str]:
        """In each language with its `{names}`; what has both itself gives the same."""
        return {
            lang: self[lang].format(
                **{
                    name: value[lang] if isinstance(value, Text | dict) else value
                    for name, value in names.items()
                }
            )
            for lang in DJANGO_LANG
        }

    @property
    def label(self) -> _StrPromise:
        """The same for Django's choices, in the language active when it is shown."""
        return lazystr(self)


@dataclass(frozen=True)
class Pair(Text):
    """A text whose Chinese stands beside it, as it does in what travels alone."""

    chinese: str = ""

    def __getitem__(self, lang: str) -> str:
        return self.chinese if lang == "zh" else self.message


def text_in_context(context: str, message: str) -> Text:
    """Imported as `pgettext`: one English text that Chinese says in two ways."""
    return Text(message, context)


# Switching languages costs far more than a look-up, and pages have many of these.
@cache
def translated(message: str, context: str, lang: str) -> str:
    with override(DJANGO_LANG[lang]):
        return pgettext(context, message) if context else gettext(message)


def terminal_language(environ: Mapping[str, str] = os.environ) -> str:
    """Django's code of the terminal's language; English where it is neither."""
    values = (environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    chosen = next((value for value in values if value), "")
    return DJANGO_LANG["zh" if chosen.lower().startswith("zh") else "en"]


def in_terminal_language() -> override:
    """A context in which gettext answers in the terminal's language."""
    return override(terminal_language())
