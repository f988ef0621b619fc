"""Prose in the reader's language, field by field; in the other where it is missing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kb.languages import HTML_TAG, OTHER, current_lang
from kb.models import Record

LOG_FENCE = re.compile(r'<pre(?: tabindex="0")?>(<code class="language-log">)')
LITERAL = r'<pre class="lit" lang="en" tabindex="0">\1'


@dataclass(frozen=True)
class Prose:
    """A section's stored HTML, and the other language's tag where it is in that."""

    html: str
    lang: str = ""


def section(record: Record, name: str) -> Prose:
    """A section, rendered and cleaned when the record was saved; log lines stay."""
    prose = stored(record, name)
    # As printed: English, and scrollable by keyboard.
    return Prose(LOG_FENCE.sub(LITERAL, prose.html), prose.lang)


def workaround(record: Record, name: str) -> Prose:
    return stored(record, "workarounds", name)


def stored(record: Record, *path: str) -> Prose:
    lang = current_lang()
    own = at(record.html.get(lang), *path)
    if own:
        return Prose(own)
    other = at(record.html.get(OTHER[lang]), *path)
    return Prose(other, HTML_TAG[OTHER[lang]] if other else "")


def at(value: object, *path: str) -> str:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def text(record: Record, field: str) -> tuple[str, str]:
    """A line of the record and, where it is in the other language, that one's tag."""
    lang = current_lang()
    own = record.text(field, lang)
    if own:
        return own, ""
    other = record.text(field, OTHER[lang])
    return other, HTML_TAG[OTHER[lang]] if other else ""
