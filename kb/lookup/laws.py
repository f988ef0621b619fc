"""Laws of arithmetic that a paste names, for answers in which no record is sure.

A report of the probe has its law from the operands; anomaly mode names no more than a
node of autograd, and several laws may end in the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kb.addresses import page_urls
from kb.languages import SEMICOLON, Text as _
from kb.lookup.paste import Paste
from kb.models import Law
from kb.search.reading.signatures import OP

NAMED = _("Line {line} shows how the value was made: {laws}.")
MAY_BE = _("The operation in line {line} can give NaN through {laws}.")
Json = dict[str, Any]


class Shown(NamedTuple):
    """A law with the line that names it; `is_certain`: by its operands."""

    law: Law
    line: int
    is_certain: bool


def of_paste(paste: Paste) -> list[Shown]:
    probe = paste.reading.probe
    if probe:
        line, name = probe.law
        return [Shown(law, line, True) for law in Law.objects.filter(name=name)]
    facets = paste.reading.facets.items()
    nodes = ((name.removeprefix(OP), n) for name, n in facets if name.startswith(OP))
    node, line = next(nodes, ("", 0))
    rows = Law.objects.all() if node else []
    return [Shown(law, line, False) for law in rows if node in law.nodes]


def sentence(shown: Sequence[Shown]) -> Json | None:
    if not shown:
        return None
    names = [row.law.both("title") for row in shown]
    laws = {lang: sign.join(n[lang] for n in names) for lang, sign in SEMICOLON.items()}
    form = NAMED if shown[0].is_certain else MAY_BE
    return form.filled(line=shown[0].line, laws=laws)


def document(shown: Shown) -> Json:
    return {
        "slug": shown.law.slug,
        "title": shown.law.both("title"),
        "summary": shown.law.both("summary"),
        "line": shown.line,
        "is_certain": shown.is_certain,
        "urls": {"html": page_urls("law-detail", shown.law.slug)},
    }
