"""A cause that may be behind a paste, with what speaks for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kb.choices import SymptomClass
from kb.lookup.facts import Facts
from kb.lookup.known import Known
from kb.lookup.symptoms import Cause
from kb.models import Record
from kb.search.ranking.log_lines import SURE, Confidence
from kb.versions import affected

MAKES_NAN = (SymptomClass.NAN_FORWARD, SymptomClass.NAN_GRAD)
Json = dict[str, Any]


@dataclass
class Candidate:
    """A cause that may be behind the paste. `known`: None where no record says more."""

    slug: str
    known: Known | None = None
    confidence: Confidence = Confidence.POSSIBLE
    score: float = 0.0
    because: list[Json] = field(default_factory=list)
    # Lines of the paste that it explains.
    lines: list[int] = field(default_factory=list)
    cause: Cause | None = None
    affected: affected.Answer | None = None
    # Why it is none: a word of `reasons.RULED_OUT`.
    ruled_out: str = ""
    # Something speaks for it but words and the symptom itself.
    is_told: bool = False
    # Only words of a question do.
    is_by_words: bool = False

    @property
    def is_unspoken(self) -> bool:
        """Only one of the causes of a symptom, of which the paste says nothing."""
        return self.cause is not None and not self.cause.because

    @property
    def row(self) -> Record | None:
        return self.known.row if self.known else None

    @property
    def makes_nan(self) -> bool:
        return self.row is not None and self.row.symptom_class in MAKES_NAN

    def is_other_symptom(self, facts: Facts) -> bool:
        """No NaN, where the paste has one."""
        return facts.says_nan and not self.makes_nan

    @property
    def is_sure(self) -> bool:
        return self.confidence in SURE
