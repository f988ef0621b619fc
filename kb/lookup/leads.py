"""What a paste speaks of, and the leads that follow, as an answer shows them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kb.addresses import record_urls
from kb.environments import spoken
from kb.languages import Text as _
from kb.lookup.known import Known
from kb.lookup.paste import Paste
from kb.lookup.traps import Trap
from kb.search.index.store import Store
from kb.search.ranking.leads import Lead, leads_from, near_of
from kb.search.ranking.nearness import Text
from kb.search.reading import names
from kb.search.reading.code import names_of_code
from kb.search.reading.parts import PRINTED, Kind
from kb.search.reading.query import raise_to, weighted_words
from kb.search.reading.symptom_facets import metrics_in
from kb.search.reading.tokens import HAN_RUN

# Characters of a part that are read for their words: of a log its beginning.
PRINTED_CHARS, WRITTEN_CHARS = 4000, 12_000
KEY_LINES = 40
WHY = _("It speaks of the same: {words}.")
Json = dict[str, Any]


class Leads:
    """The weighted words that a paste speaks of, compared with the records once."""

    def __init__(self, weights: Mapping[str, float], store: Store) -> None:
        self.text = Text(weights, store)
        self.near = near_of(self.text)
        self.nearness = {document.record: score for score, document in self.near}

    def besides(self, known: Collection[str]) -> list[Lead]:
        """Without the records that match already."""
        return leads_from(self.near, self.text, known)


def spoken_of(paste: Paste) -> dict[str, float]:
    """The weighted words of all parts but lists of packages, and the symptoms."""
    weights: dict[str, float] = {}
    if paste.is_only_environment:
        return weights
    for kind in Kind:
        text = "\n".join(paste.texts(kind))
        if not (text or kind == Kind.PROBE):
            continue
        if kind == Kind.CODE:
            raise_to(of_code(text[:WRITTEN_CHARS]), weights)
        elif kind == Kind.PROBE and paste.reading.probe:
            raise_to(weighted_words(paste.reading.probe.words), weights)
        elif kind == Kind.TENSOR:
            raise_to(of_tensors(text[:PRINTED_CHARS]), weights)
        elif kind in PRINTED:
            raise_to(weighted_words(text[:PRINTED_CHARS]), weights)
        elif kind == Kind.ENVIRONMENT:
            for begun in spoken.spoken_of(text):
                raise_to(weighted_words(begun.words[:WRITTEN_CHARS]), weights)
        else:
            raise_to(weighted_words(text[:WRITTEN_CHARS]), weights)
    lines = "\n".join(line.text for line in paste.reading.key_lines[:KEY_LINES])
    raise_to(of_tensors(lines), weights)
    written = " ".join("\n".join(paste.texts(Kind.WORDS)).split())[:WRITTEN_CHARS]
    facets = {*paste.reading.facets, *metrics_in(written).facets}
    raise_to({facet.lower(): 1.0 for facet in facets}, weights)
    return weights


def of_code(source: str) -> dict[str, float]:
    """Words of code; its names by what they are imported as."""
    weights = weighted_words(source)
    named = names_of_code(source)
    if named:
        weights = {
            token: weight
            for token, weight in weights.items()
            if not token.startswith(names.PREFIX)
        }
    return weights | dict.fromkeys(named, 1.0)


def of_tensors(printed: str) -> dict[str, float]:
    """What lines say beside how tensors are printed, and what made the tensors."""
    weights = weighted_words(names.PRINTED.sub(" ", printed))
    return weights | dict.fromkeys(names.made_by(printed), 1.0)


def with_traps(
    leads: list[Lead], traps: Mapping[str, Trap], nearness: Mapping[str, float]
) -> list[Lead]:
    """The records whose traps the code has stand first, each once."""
    words = {lead.record: lead.words for lead in leads}
    first = [
        Lead(record, nearness.get(record, 0.0), words.get(record, ()))
        for record in traps
    ]
    return first + [lead for lead in leads if lead.record not in traps]


def documents_of(
    leads: Iterable[Lead], records: Mapping[str, Known], traps: Mapping[str, Trap]
) -> list[Json]:
    """The leads in their order; `records`: what is known of theirs."""
    return [
        document(lead, records[lead.record], traps.get(lead.record))
        for lead in leads
        if lead.record in records
    ]


def document(lead: Lead, record: Known, trap: Trap | None) -> Json:
    """`why`: what the rule says that fires on the code, else the words in common."""
    words = WHY.filled(words=words_in_common(lead.words))
    return {
        "record": record.row.id,
        "title": record.row.both("title"),
        "score": round(lead.score, 2),
        "words": list(lead.words),
        "why": trap.finding.rule["message"] if trap else words,
        "trap": trap_document(trap) if trap else None,
        "diagnoses": list(record.diagnoses),
        "parameters": [],
        "urls": record_urls(record.row),
    }


def words_in_common(words: Sequence[str]) -> dict[str, str]:
    """In English without Chinese ones, which synonyms add, while others are left."""
    latin = [word for word in words if not HAN_RUN.search(word)]
    return {"en": ", ".join(latin or words), "zh": ", ".join(words)}


def trap_document(trap: Trap) -> Json:
    rule = trap.finding.rule
    return {
        "rule": rule["name"],
        "severity": rule["severity"],
        "line": trap.line,
        "pasted": trap.pasted,
    }
