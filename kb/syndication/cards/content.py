"""What stands on a record's card: its title, and its verdicts over releases."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from django.urls import reverse
from django.utils.translation import gettext as _

from kb.choices import Publication, Verdict
from kb.findings.release_row import STRONGEST, Row, rows
from kb.languages import OTHER, current_lang
from kb.models import Record

VERSION_CHARS = 12
# A digest of the module that draws, for pictures that were drawn by an older one.
DRAWN_BY = hashlib.sha256(
    Path(__file__).with_name("drawing.py").read_bytes()
).hexdigest()


@dataclass(frozen=True)
class Card:
    """`titles`: the first that the font can draw is taken. `counts`: of squares.

    `said` stands in place of the rows where there are none.
    """

    record: str
    titles: tuple[str, str]
    symptom: str
    site: str
    rows: tuple[Row, ...]
    counts: tuple[tuple[Verdict, str], ...]
    axis: str
    said: str

    @property
    def version(self) -> str:
        """Another one whenever the picture would be another one."""
        seen = f"{DRAWN_BY}\n{self!r}"
        return hashlib.sha256(seen.encode()).hexdigest()[:VERSION_CHARS]

    @property
    def alt(self) -> str:
        words = [words for _verdict, words in self.counts]
        return " · ".join(filter(None, [self.titles[0], self.said, *words]))


def of_record(record: Record) -> Card:
    """In the active language."""
    lang = current_lang()
    findings = list(record.findings.all())
    is_withdrawn = record.publication == Publication.WITHDRAWN
    found = () if is_withdrawn else rows(findings)
    is_model = any(row.is_model for row in findings)
    return Card(
        record=record.id,
        titles=(record.text("title", lang), record.text("title", OTHER[lang])),
        symptom=record.get_symptom_class_display(),
        site=_("Does it NaN?"),
        rows=found,
        counts=tuple(counts(found)),
        axis=_("torch releases"),
        said=sentence(record, bool(found), is_model),
    )


def counts(found: tuple[Row, ...]) -> list[tuple[Verdict, str]]:
    """ "bug reproduced: 5" for each verdict on the card."""
    tally = Counter(square.verdict for row in found for square in row.squares)
    return [
        (verdict, _("%(label)s: %(text)s") % {"label": verdict.label, "text": number})
        for verdict in STRONGEST
        if (number := tally[verdict])
    ]


def sentence(record: Record, is_judged: bool, is_model: bool) -> str:
    if record.publication == Publication.WITHDRAWN:
        return _("Withdrawn.")
    if is_judged:
        return ""
    if is_model:
        return _("A model of the mechanism was run; no release is judged by it.")
    return _("Not run on any release yet.")


def address(record: Record, card: Card) -> str:
    """Its path, which changes with the picture: who shows links keeps pictures."""
    return f"{reverse('record-card', args=[record.id])}?v={card.version}"
