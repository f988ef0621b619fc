"""One symptom: the records that can be behind it, and what tells them apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kb.findings import diagnoses
from kb.findings.claims import FindingInput
from kb.languages import current_lang
from kb.models import Finding, Record, Symptom


@dataclass(frozen=True)
class Cause:
    """A record with the sentence that tells it apart.

    `diagnosis`: the code that says whether it is the reader's, where runs bear it out.
    """

    record: Record
    tells: str
    diagnosis: dict[str, Any] | None


@dataclass(frozen=True)
class SymptomPage:
    symptom: Symptom
    title: str
    summary: str
    causes: list[Cause]


def build(slug: str) -> SymptomPage | None:
    """None where there is no such symptom, or none of its records is published."""
    symptom = Symptom.objects.filter(slug=slug).first()
    causes = causes_of(symptom) if symptom else []
    if symptom is None or not causes:
        return None
    lang = current_lang()
    title, summary = (symptom.text(name, lang) for name in ("title", "summary"))
    return SymptomPage(symptom, title, summary, causes)


def causes_of(symptom: Symptom) -> list[Cause]:
    ids = [cause["record"] for cause in symptom.causes]
    records = Record.objects.visible().defer("html").in_bulk(ids)
    findings = Finding.objects.diagnoses(records).claim_inputs()
    lang = current_lang()
    return [
        Cause(
            records[cause["record"]],
            cause["tells"][lang],
            first_diagnosis(
                records[cause["record"]], findings.get(cause["record"], [])
            ),
        )
        for cause in symptom.causes
        if cause["record"] in records
    ]


def first_diagnosis(
    record: Record, findings: list[FindingInput]
) -> dict[str, Any] | None:
    return next(iter(diagnoses.of_record(record, findings)), None)
