"""One record's files as database rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kb.choices import LANGS, SECTIONS
from kb.models import Record
from kb.publishing import saving
from kb.records import rendering, translation
from kb.records.facts import KEYS, Facts
from kb.records.files import RecordFile, ReproFacts
from portable.harness import source_digest

COLUMNS = {field.name for field in Record._meta.concrete_fields}
# Keys of issue.toml that a column of this name holds as they stand.
PLAIN = [key.name for key in KEYS if key.name in COLUMNS and not key.optional]
# Columns that come in both languages, and the key of {en = …, zh = …}.
BILINGUAL = {
    "title": "title",
    "summary": "symptom",
    "withdrawn_because": "withdrawn_because",
}
# Columns that hold a list of tables, and the table's name.
LISTS = {
    "preconditions": "precondition",
    "signatures": "signature",
    "affected": "affected",
    "fixes": "fix",
    "workarounds": "workaround",
    "diagnoses": "diagnosis",
    "sources": "source",
    "check_titles": "check",
    "rules": "rule",
}
# Keys that are code of a repro: the column, the key and the function's prefix.
CODE = (("workarounds", "apply", "apply_"), ("diagnoses", "code", "diagnose_"))


def with_code(file: RecordFile) -> dict[str, list[Facts]]:
    """The columns of `CODE` with the code that the repros have."""
    return {
        column: [
            {**row, key: file.snippets[name]}
            if (name := f"{prefix}{row['name']}") in file.snippets
            else row
            for row in file.facts.get(LISTS[column], [])
        ]
        for column, key, prefix in CODE
    }


def apply(
    file: RecordFile,
    repros: Mapping[str, ReproFacts],
    record: Record,
    html: dict[str, Any],
) -> None:
    """Make the rows hold what the files do."""
    for key in PLAIN:
        setattr(record, key, file.facts[key])
    record.depth = file.depth
    for column, key in BILINGUAL.items():
        for lang in LANGS:
            setattr(record, f"{column}_{lang}", file.facts.get(key, {}).get(lang, ""))
    record.updated = file.facts.get("updated", "")
    record.curve = file.curve
    for column, table in LISTS.items():
        setattr(record, column, file.facts.get(table, []))
    for column, rows in with_code(file).items():
        setattr(record, column, rows)
    for lang in LANGS:
        for name in SECTIONS:
            setattr(record, f"{name}_{lang}", file.articles[lang][name])
    record.html, record.html_version = html, rendering.VERSION
    record.outdated = translation.outdated(file)
    record.files_digest = file.files_digest
    saving.save(
        record,
        claims=[claim_columns(claim) for claim in file.facts.get("claim", [])],
        repros={
            name: repro_columns(source, repros[name])
            for name, source in file.repros.items()
        },
    )


def claim_columns(facts: Facts) -> dict[str, Any]:
    return {
        "cid": facts["id"],
        "kind": facts["kind"],
        "text_en": facts["text"]["en"],
        "text_zh": facts["text"]["zh"],
        "source": facts["source"],
        "check_ref": facts.get("check", ""),
        "expects": facts.get("expects", ""),
        "builds": facts.get("builds", []),
    }


def repro_columns(source: str, facts: ReproFacts) -> dict[str, Any]:
    return {
        "source": source,
        "digest": source_digest(source),
        "fidelity": facts.fidelity,
        "device": facts.device,
        "header": facts.header,
        "checks": facts.checks,
    }
