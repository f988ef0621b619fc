"""Symptoms of many causes from their files into the database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kb.choices import LANGS
from kb.models import Symptom
from kb.records.symptoms import SymptomFile


def store(files: Iterable[SymptomFile]) -> None:
    """Make the rows what the files say; a row without a file goes."""
    columns = {file.slug: columns_of(file) for file in files}
    Symptom.objects.exclude(slug__in=columns).delete()
    rows = Symptom.objects.in_bulk(list(columns))
    for slug, values in columns.items():
        row = rows.get(slug)
        # An unchanged one keeps its date.
        if row is None or any(getattr(row, k) != v for k, v in values.items()):
            Symptom.objects.update_or_create(slug=slug, defaults=values)


def columns_of(file: SymptomFile) -> dict[str, Any]:
    texts = {
        f"{name}_{lang}": file.facts[name][lang]
        for name in ("title", "summary")
        for lang in LANGS
    }
    return {
        **texts,
        "words": list(file.facts["words"]),
        "signatures": file.signatures,
        "causes": file.causes,
    }
