"""One symptom: what can be behind it, and the question that tells each cause apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import Http404
from django.utils.translation import gettext as _

from kb.findings import diagnoses
from kb.languages import current_lang
from kb.lookup.symptoms import records_of
from kb.models import Finding, Record, Symptom


@dataclass(frozen=True)
class Cause:
    """`record`: None for a cause that has none yet; then it has a name only.

    `diagnosis`: the code that says whether it is the reader's, where runs bear it out.
    """

    record: Record | None
    name: str
    ask: str
    diagnosis: dict[str, Any] | None


@dataclass(frozen=True)
class SymptomPage:
    title: str
    summary: str
    causes: list[Cause]


def build(slug: str) -> SymptomPage:
    """Raises Http404."""
    symptom = Symptom.objects.filter(slug=slug).first()
    if symptom is None:
        raise Http404(_("There is no symptom %s.") % slug)
    lang = current_lang()
    title, summary = (symptom.text(name, lang) for name in ("title", "summary"))
    return SymptomPage(title, summary, causes_of(symptom))


def causes_of(symptom: Symptom) -> list[Cause]:
    records = records_of([cause["slug"] for cause in symptom.causes])
    ids = [row.pk for row in records.values()]
    found = Finding.objects.diagnoses(ids).by_record()
    lang = current_lang()
    return [
        Cause(
            record := records.get(cause["slug"]),
            cause["name"][lang] if record is None else record.text("title", lang),
            cause["ask"][lang],
            first_diagnosis(record, found.get(record.pk, [])) if record else None,
        )
        for cause in symptom.causes
        if cause["slug"] in records or "name" in cause
    ]


def first_diagnosis(record: Record, findings: list[Finding]) -> dict[str, Any] | None:
    return next(iter(diagnoses.of_record(record, findings)), None)
