"""Records as the API shows them (contract §7): plain data, both languages."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from kb.addresses import absolute, record_urls
from kb.choices import LANGS, SECTIONS, ClaimState
from kb.findings import claims, contradictions, results
from kb.models import Claim, Finding, Record, Repro
from kb.records.files import split_workarounds

Json = dict[str, Any]


def flatten(value: Any, lang: str) -> Any:
    """Every {"en": …, "zh": …} replaced by its text in `lang`.

    A text missing in `lang` falls back to the other language.
    """
    if isinstance(value, dict):
        if set(value) == set(LANGS):
            other = next(code for code in LANGS if code != lang)
            return flatten(value[lang] or value[other], lang)
        return {key: flatten(item, lang) for key, item in value.items()}
    if isinstance(value, list):
        return [flatten(item, lang) for item in value]
    return value


def record_item(record: Record) -> Json:
    """A record in a list. Needs findings prefetched to stay one query."""
    return {
        "id": record.id,
        "slug": record.slug,
        "title": record.both("title"),
        "symptom_class": record.symptom_class,
        "upstream": record.upstream,
        "modified": results.timestamp(record.modified),
        "results": results.summary(record.findings.all()),
        "urls": record_urls(record),
    }


def record_document(record: Record) -> Json:
    """The whole record, as GET /api/v1/records/{id} answers it."""
    findings = list(record.findings.all())
    sections = {name: section(record, name) for name in SECTIONS}
    return {
        "id": record.id,
        "slug": record.slug,
        "revision": record.revision,
        "modified": results.timestamp(record.modified),
        "publication": record.publication,
        "upstream": record.upstream,
        "symptom_class": record.symptom_class,
        "components": record.components,
        "title": record.both("title"),
        "symptom": {"summary": record.both("summary"), **sections["symptom"]},
        "environment": {"reported": record.environment, **sections["environment"]},
        "root_cause": sections["root_cause"],
        "workaround": [
            workaround(record, entry, findings) for entry in record.workarounds
        ],
        "fix": sections["fix"],
        "fix_version": [fix_version(entry) for entry in record.fixes],
        "affected_when": record.affected_when,
        "affected": record.affected,
        "preconditions": record.preconditions,
        "signatures": record.signatures,
        "claims": [claim(row, findings) for row in record.claims.all()],
        "contradictions": contradictions.everything(record, findings),
        "sources": record.sources,
        "aliases": record.aliases,
        "related": record.related,
        "repros": [repro(row) for row in record.repros.all()],
        "results": results.summary(findings),
        "urls": record_urls(record),
    }


def record_version(record_id: str) -> tuple[object, ...] | None:
    """What decides `record_document`, far cheaper: row and evidence of a record.

    None for a record without an address.
    """
    rows = Record.objects.addressable().filter(id=record_id)
    row = rows.values_list("revision", "modified").first()
    if row is None:
        return None
    seen = Finding.objects.filter(record=record_id).order_by("pk")
    return (*row, *seen.values_list("pk", "evidence", "stale"))


def contradiction_item(record: Record, found: Json) -> Json:
    """A contradiction in a list of all records."""
    named = {"record": record.id, "title": record.both("title")}
    return {**found, **named, "urls": record_urls(record)}


def matrix_document(record: Record) -> Json:
    """The record's verdict on each tested build, oldest version first."""
    return {
        "record": record.id,
        "cells": [
            {
                "build": cell.build,
                "raw": cell.build_raw,
                "device": cell.device_class,
                "verdict": cell.verdict,
                "reason": cell.reason or None,
                "hits": cell.hits,
                "trials": cell.trials,
                "evidence": cell.evidence,
                "observed_at": results.timestamp(cell.observed_at),
            }
            for cell in results.cells(record.findings.all())
        ],
        "urls": record_urls(record),
    }


def section(record: Record, name: str) -> Json:
    return {
        "markdown": record.both(name),
        "html": {lang: record.html.get(lang, {}).get(name, "") for lang in LANGS},
    }


def fix_version(entry: Json) -> Json:
    return {key: entry[key] for key in ("package", "version", "kind")}


def workaround(record: Record, entry: Json, findings: list[Finding]) -> Json:
    inputs = [row.as_claim_input() for row in findings]
    status, evidence = claims.workaround_status(entry["name"], inputs)
    prose = {lang: workaround_prose(record, lang, entry["name"]) for lang in LANGS}
    return {
        **{key: entry[key] for key in ("name", "kind", "apply", "needs", "cost")},
        "markdown": {lang: text[0] for lang, text in prose.items()},
        "html": {lang: text[1] for lang, text in prose.items()},
        "status": status,
        "status_by_build": claims.workaround_by_build(entry["name"], inputs),
        "evidence": evidence,
    }


def workaround_prose(record: Record, lang: str, name: str) -> tuple[str, str]:
    """Markdown and HTML of one workaround's own section."""
    markdown = split_workarounds(record.text("workaround", lang)).get(name, "")
    html = record.html.get(lang, {}).get("workarounds", {}).get(name, "")
    return markdown, html


def claim(row: Claim, findings: list[Finding]) -> Json:
    inputs = [finding.as_claim_input() for finding in findings]
    used = claims.evidence_for(row, inputs)
    return {
        "id": row.cid,
        "kind": row.kind,
        "text": {"en": row.text_en, "zh": row.text_zh},
        "source": row.source,
        "state": ClaimState(claims.state(row, inputs)).value,
        "evidence": sorted({finding["evidence"] for finding in used}),
    }


def repro(row: Repro) -> Json:
    return {
        "name": row.name,
        "fidelity": row.fidelity,
        "device": row.device,
        "digest": row.digest,
        "url": absolute(
            reverse("api-record-repro", args=[row.record_id, f"{row.name}.py"])
        ),
    }
