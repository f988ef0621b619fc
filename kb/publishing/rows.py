"""One record between its two forms: database rows and files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from kb.choices import LANGS, SECTIONS
from kb.models import Claim, Record
from kb.publishing import saving
from kb.records import rendering
from kb.records.facts import SCHEMA, Facts
from kb.records.files import RecordFile, ReproFacts, digest_of, write_record

# Columns that hold a value of issue.toml as it stands, and its key there.
PLAIN = {
    "slug": "slug",
    "publication": "publication",
    "upstream": "upstream",
    "symptom_class": "symptom_class",
    "components": "components",
    "aliases": "aliases",
    "related": "related",
    "environment": "environment",
    "affected_when": "affected_when",
}
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


def record_to_file(record: Record) -> RecordFile:
    """The record as its files would hold it."""
    facts: Facts = {"schema": SCHEMA, "id": record.id}
    facts |= {key: getattr(record, column) for column, key in PLAIN.items()}
    facts |= {key: record.both(column) for column, key in BILINGUAL.items()}
    facts |= {table: getattr(record, column) for column, table in LISTS.items()}
    snippets = take_out_code(facts, record)
    if not any(facts["withdrawn_because"].values()):
        del facts["withdrawn_because"]
    facts["claim"] = [claim_facts(claim) for claim in record.claims.all()]
    return RecordFile(
        facts=facts,
        articles={
            lang: {name: record.text(name, lang) for name in SECTIONS} for lang in LANGS
        },
        repros={repro.name: repro.source for repro in record.repros.all()},
        snippets=snippets,
    )


def take_out_code(facts: Facts, record: Record) -> dict[str, str]:
    """Remove from the facts what repros say, and return it by the function's name."""
    sources = "\n".join(repro.source for repro in record.repros.all())
    snippets = {}
    for column, key, prefix in CODE:
        rows = []
        for row in getattr(record, column):
            name = f"{prefix}{row['name']}"
            if re.search(rf"^def {name}\(", sources, re.MULTILINE):
                snippets[name] = row.get(key, "")
                row = {k: value for k, value in row.items() if k != key}
            rows.append(row)
        facts[LISTS[column]] = rows
    return snippets


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


def claim_facts(claim: Claim) -> Facts:
    facts: Facts = {
        "id": claim.cid,
        "kind": claim.kind,
        "text": {"en": claim.text_en, "zh": claim.text_zh},
        "source": claim.source,
        "check": claim.check_ref,
        "expects": claim.expects,
        "builds": claim.builds,
    }
    return {key: value for key, value in facts.items() if value}


def content_digest(record: Record) -> str:
    """The digest of the files that this record would be written to."""
    return digest_of(write_record(record_to_file(record)))


def stored_facts(record: Record) -> dict[str, ReproFacts]:
    return {
        repro.name: ReproFacts(repro.fidelity, repro.device, repro.header, repro.checks)
        for repro in record.repros.all()
    }


def apply(
    file: RecordFile,
    repros: Mapping[str, ReproFacts],
    record: Record,
    html: dict[str, Any],
) -> None:
    """Make the rows hold what the files do: one revision more."""
    for column, key in PLAIN.items():
        setattr(record, column, file.facts[key])
    for column, key in BILINGUAL.items():
        for lang in LANGS:
            setattr(record, f"{column}_{lang}", file.facts.get(key, {}).get(lang, ""))
    for column, table in LISTS.items():
        setattr(record, column, file.facts.get(table, []))
    for column, rows in with_code(file).items():
        setattr(record, column, rows)
    for lang in LANGS:
        for name in SECTIONS:
            setattr(record, f"{name}_{lang}", file.articles[lang][name])
    record.html, record.html_version = html, rendering.VERSION
    # Files are reviewed in both languages at once.
    record.outdated, record.significance = {}, ""
    record.files_digest = file.files_digest
    record.content_digest = digest_of(write_record(file))
    record.revision += 1
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


def source_digest(source: str) -> str:
    return f"sha256:{hashlib.sha256(source.encode()).hexdigest()}"
