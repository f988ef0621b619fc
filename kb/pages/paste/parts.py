"""How a paste was read, part by part, and what a reader says of it instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kb.languages import Text as _
from kb.search.reading.parts import MAX_PARTS, Kind, Part

LABELS = {
    Kind.LOG: _("log"),
    Kind.TRACEBACK: _("traceback"),
    Kind.METRICS: _("metrics"),
    Kind.TENSOR: _("printed tensor"),
    Kind.PROBE: _("nan_probe report"),
    Kind.CODE: _("code"),
    Kind.CONFIG: _("configuration"),
    Kind.ENVIRONMENT: _("package list"),
    Kind.WORDS: _("words"),
}
# What a reader may say instead; the others are kinds of logs.
CHOICES = (Kind.LOG, Kind.CODE, Kind.WORDS, Kind.CONFIG, Kind.ENVIRONMENT)
KINDS = {kind.value for kind in Kind}
SHOWN = 12
CORRECTION = re.compile(r"(\d{1,7})-(\d{1,7})=([a-z]{1,20})")


class Choice(NamedTuple):
    """A button: what it sends, and its words."""

    value: str
    label: str


class ShownPart(NamedTuple):
    first: int
    last: int
    label: str
    choices: list[Choice]


def corrections_of(values: Iterable[str]) -> list[Part]:
    """What a form says of parts, as "1-12=code"; anything else is left out."""
    found = map(CORRECTION.fullmatch, list(values)[: 2 * MAX_PARTS])
    return [
        Part(Kind(match[3]), int(match[1]), int(match[2]))
        for match in found
        if match and match[3] in KINDS
    ]


def shown_parts(parts: Iterable[Mapping[str, Any]]) -> list[ShownPart]:
    return [
        ShownPart(
            part["first"],
            part["last"],
            str(LABELS[Kind(part["kind"])]),
            [
                Choice(f"{part['first']}-{part['last']}={kind}", str(LABELS[kind]))
                for kind in CHOICES
                if kind != part["kind"]
            ],
        )
        for part in list(parts)[:SHOWN]
    ]
