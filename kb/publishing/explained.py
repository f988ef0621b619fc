"""Symptoms of many causes and laws of arithmetic, from files into the database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kb.choices import LANGS
from kb.models import Law, SearchState, Symptom
from kb.records.laws import LawFile
from kb.records.symptoms import SymptomFile
from kb.search.index import writer


def store_symptoms(files: Iterable[SymptomFile]) -> None:
    """Make the rows what the files say; a row without a file goes."""
    bring_in_step(Symptom, {file.slug: columns_of(file) for file in files})


def store_laws(files: Iterable[LawFile]) -> None:
    """Make the rows what the files say; a row without a file goes."""
    columns = {
        facts["slug"]: {**texts_of(facts), "name": facts["law"], **file.columns}
        for file in files
        for facts in [file.facts]
    }
    bring_in_step(Law, columns)


def bring_in_step(
    model: type[Symptom] | type[Law], columns: dict[str, dict[str, Any]]
) -> None:
    """`columns`: of each row by its slug. What is unchanged keeps its date."""
    gone, _by_model = model.objects.exclude(slug__in=columns).delete()
    rows: dict[str, Any] = model.objects.in_bulk(list(columns))
    changed = [
        slug
        for slug, values in columns.items()
        if slug not in rows or any(vars(rows[slug])[k] != values[k] for k in values)
    ]
    for slug in changed:
        model.objects.update_or_create(slug=slug, defaults=columns[slug])
    if gone or changed:
        SearchState.objects.update(generation=writer.new_generation())


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
