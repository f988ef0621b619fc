"""The cells of a row of the matrix, each with its address and its words in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django import template
from django.urls import reverse

from kb import badges
from kb.languages import SPACE, current_lang
from kb.models import Record
from kb.templatetags.kb import short_digest
from runner.models.evidence import evidence_path
from runner.pages.grid import Span, Square

register = template.Library()


@dataclass(frozen=True)
class Cell:
    """A span as it is shown, in one language."""

    span: Span
    square: Square
    size: int
    label: str
    url: str
    title: str


@register.inclusion_tag("runner/_cells.html")
def cells(spans: Sequence[Span], record: Record) -> dict[str, Any]:
    """{% cells row.spans record %}: the cells of one row."""
    lang = current_lang()
    return {"cells": [cell_of(span, record, lang) for span in spans]}


def cell_of(span: Span, record: Record, lang: str) -> Cell:
    label = span.label
    words = span.square.words
    if trials := span.trials:
        words += SPACE[lang] + badges.counts(span.hits, trials, lang).strip()
    url = cell_url(span, record, lang)
    return Cell(span, span.square, span.size, label, url, f"{label}: {words}")


def cell_url(span: Span, record: Record, lang: str) -> str:
    """To the evidence behind a cell; where nobody has run it, to where one can.

    Ids of records and slugs of builds need no quoting in an address.
    """
    square = span.square
    if square.evidence and span.size == 1:
        return evidence_path(short_digest(square.evidence))
    if square.evidence or square.likely:
        builds = span.columns if square.evidence else ()
        query = [f"record={record.pk}", *(f"build={row.slug}" for row in builds)]
        return f"{matrix_path(lang)}?{'&'.join(query)}"
    return f"{record.get_absolute_url()}?torch={span.columns[-1].slug}#run"


@lru_cache(maxsize=2)
def matrix_path(_lang: str) -> str:
    return reverse("matrix")
