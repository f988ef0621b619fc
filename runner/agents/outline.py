"""Answers as text that a model reads: an outline of names and values, cut to a size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

# 2,000 tokens of about four characters, with the line that says what is left out.
MOST_CHARS = 7800


def text_of(found: Any) -> str:
    """Whatever a tool answers; what is empty is left out."""
    return found if isinstance(found, str) else "\n".join(lines(found))


def lines(value: Any, pad: str = "") -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            first, *rest = lines(item, pad + "  ")
            yield from (f"{pad}- {first.lstrip()}", *rest)
    elif isinstance(value, dict):
        for name, item in value.items():
            if item not in (None, "", [], {}):
                yield from named(name, item, pad)
    else:
        yield pad + (value if isinstance(value, str) else json.dumps(value))


def named(name: str, item: Any, pad: str) -> Iterator[str]:
    nested = isinstance(item, (dict, list))
    below = list(lines(item, pad + "  "))
    if not nested and len(text := below[0].strip().splitlines()) > 1:
        nested, below = True, [f"{pad}  | {line}" for line in text]
    if nested:
        yield from (f"{pad}{name}:", *below) if below else ()
    else:
        yield f"{pad}{name}: {below[0].strip()}"


def cut(text: str) -> str:
    """Its first lines, with a word about the others where there are more."""
    if len(text) <= MOST_CHARS:
        return text
    kept = text[:MOST_CHARS].rpartition("\n")[0]
    if kept.count("```") % 2:
        kept += "\n```"
    more = len(text.splitlines()) - len(kept.splitlines())
    return kept + "\n" + _("… %d more lines: ask with detail=full") % more + "\n"
