"""Symptoms of many causes and laws of arithmetic, from files into the database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kb.choices import LANGS
from kb.models import Law, Symptom
from kb.records.laws import LawFile
from kb.records.symptoms import SymptomFile


def store_symptoms(files: Iterable[SymptomFile]) -> None:
    """Make the rows what the files say; a row without a file goes."""
    bring_in_step(Symptom, {file.slug: columns_of(file) for file in files})


def store_laws(files: Iterable[LawFile]) -> None:
    """Make the rows what the files say; a row without a file goes."""
    columns = {
        file.facts["slug"]: {
            **texts_of(file.facts),
            "name": file.facts["law"],
            **file.columns,
        }
        for file in files
    }
    bring_in_step(Law, columns)


def bring_in_step(
    model: type[Symptom] | type[Law], columns: dict[str, dict[str, Any]]
) -> None:
    """`columns`: of each row by its slug."""
    model.objects.exclude(slug__in=columns).delete()
    rows: dict[str, Any] = model.objects.in_bulk(list(columns))
    for slug, values in columns.items():
        row = rows.get(slug)
        # An unchanged one keeps its date.
        if row is None or any(getattr(row, k) != v for k, v in values.items()):
            model.objects.update_or_create(slug=slug, defaults=values)


def texts_of(facts: dict[str, Any]) -> dict[str, str]:
    return {
        f"{name}_{lang}": facts[name][lang]
        for name in ("title", "summary")
        for lang in LANGS
    }


def columns_of(file: SymptomFile) -> dict[str, Any]:
    return {
        **texts_of(file.facts),
        "words": list(file.facts["words"]),
        "signatures": file.signatures,
        "causes": file.causes,
    }
