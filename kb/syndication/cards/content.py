"""What stands on a record's card: its title, and the strip of its releases."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from django.urls import reverse
from django.utils.translation import gettext as _

from kb.choices import Publication, Verdict
from kb.findings import strip
from kb.findings.strip import VERDICTS, Strip
from kb.languages import OTHER, current_lang
from kb.models import Record

VERSION_CHARS = 12
# A digest of the module that draws, for pictures that were drawn by an older one.
DRAWN_BY = hashlib.sha256(
    Path(__file__).with_name("drawing.py").read_bytes()
).hexdigest()


class Square(NamedTuple):
    release: str
    verdict: str


class Row(NamedTuple):
    """One class of device; oldest release first."""

    device: str
    squares: tuple[Square, ...]


@dataclass(frozen=True)
class Card:
    """`titles`: the first that the font can draw is taken. `ranges`: in words.

    `said` stands in place of the rows where there are none.
    """

    record: str
    titles: tuple[str, str]
    symptom: str
    site: str
    rows: tuple[Row, ...]
    ranges: tuple[tuple[str, str], ...]
    said: str

    @property
    def version(self) -> str:
        """Another one whenever the picture would be another one."""
        seen = f"{DRAWN_BY}\n{self!r}"
        return hashlib.sha256(seen.encode()).hexdigest()[:VERSION_CHARS]

    @property
    def alt(self) -> str:
        words = [words for _verdict, words in self.ranges]
        return " · ".join(filter(None, [self.titles[0], self.said, *words]))


def of_record(record: Record) -> Card:
    """In the active language."""
    lang = current_lang()
    strips = strips_of(record)
    return Card(
        record=record.id,
        titles=(record.text("title", lang), record.text("title", OTHER[lang])),
        symptom=record.get_symptom_class_display(),
        site=_("Does it NaN?"),
        rows=tuple(row(one) for one in strips),
        ranges=tuple(ranges(strips)),
        said=sentence(record, strips),
    )


def strips_of(record: Record) -> list[Strip]:
    if record.publication == Publication.WITHDRAWN:
        return []
    return strip.of_record(record, record.findings.all(), "")


def row(one: Strip) -> Row:
    squares = (Square(run.label, run.cell.verdict) for run in one.runs)
    return Row(one.device, tuple(squares))


def ranges(strips: list[Strip]) -> list[tuple[str, str]]:
    """ "Bug in 2.0.1 to 2.4.1: 5 builds", what shows the bug first."""
    found = [
        (
            part.first.cell.verdict,
            f"{one.device} {part.said}" if strips[1:] else part.said,
        )
        for one in strips
        for part in one.ranges
    ]
    return sorted(found, key=lambda part: VERDICTS.index(Verdict(part[0])))


def sentence(record: Record, strips: list[Strip]) -> str:
    """What stands in place of the strips where there are none."""
    if record.publication == Publication.WITHDRAWN:
        return _("Withdrawn.")
    if strips:
        return ""
    if any(row.is_model for row in record.findings.all()):
        return _("Only a model of the mechanism was run; it judges no release.")
    return _("Not run on any release yet.")


def address(record: Record, card: Card) -> str:
    """Its path, which changes with the picture: who shows links keeps pictures."""
    return f"{reverse('record-card', args=[record.id])}?v={card.version}"
