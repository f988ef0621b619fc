"""Which text a translation was made from, and whether that text is another one today.

`translated_from` in issue.toml names a language and the digest of all that the record
says in it: `{en = "5b0c…"}` where the Chinese was made from that English. An edit of
the source changes the digest; whoever brings the translation in step writes the new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from kb.choices import LANGS, SECTIONS
from kb.languages import OTHER
from kb.records.facts import FACTS_FILE
from kb.records.files import Problem, RecordFile

DIGITS = 16


def digest(file: RecordFile, lang: str) -> str:
    """Of every text of the record in this language; how it is laid out is no matter."""
    article = file.articles.get(lang, {})
    said = [*texts(file.facts, lang)]
    said += [article.get(name, "") for name in SECTIONS]
    text = json.dumps([" ".join(part.split()) for part in said], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def texts(value: Any, lang: str) -> Iterator[str]:
    """What facts say in this language, in their order."""
    if isinstance(value, dict) and set(value) == set(LANGS):
        yield str(value[lang])
        return
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        for part in parts:
            yield from texts(part, lang)


def outdated(file: RecordFile) -> str:
    """The language whose text is behind the other's; "" where none is, or unknown."""
    for source, made_from in file.facts.get("translated_from", {}).items():
        if made_from != digest(file, source):
            return OTHER[source]
    return ""


def problems(file: RecordFile) -> Iterator[Problem]:
    """What an author has to do: a sound record may be published without it."""
    named = file.facts.get("translated_from")
    if named is not None and not outdated(file):
        return
    source = next(iter(named or {"en": ""}))
    now = f'translated_from = {{{source} = "{digest(file, source)}"}}'
    if named is None:
        message = _("is missing; if both languages say the same, write: %s") % now
    else:
        values = {"lang": OTHER[source], "source": source, "now": now}
        message = _(
            "%(lang)s was translated from an older text in %(source)s; update it, "
            "then write: %(now)s"
        )
        message %= values
    yield Problem(FACTS_FILE, "translated_from", message)
