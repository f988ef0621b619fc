"""A record as an entry of OSV (https://ossf.github.io/osv-schema/, 1.7.5).

Only what ends is exported: a range without a fix would fail every audit for good, and
so would what is by design. A bug that needs two packages at once is left out too, as
OSV has no "and" between packages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kb.choices import AffectedWhen, Publication
from kb.environments.package_lines import canonical
from kb.findings.results import timestamp
from kb.models import Finding, Record
from kb.syndication import dates
from kb.versions.ranges import AFFECTED, NOT_AFFECTED, in_range, parse_version

Json = dict[str, Any]
Entry = Mapping[str, Any]

SCHEMA_VERSION = "1.7.5"
# The schema's mark of databases that osv.dev does not collect.
PREFIX = "x_"
ECOSYSTEM = "PyPI"
NEWEST = parse_version("99999.0.0")
REFERENCE_TYPES = {
    "fix": "FIX",
    "report": "REPORT",
    "discussion": "DISCUSSION",
    "article": "ARTICLE",
}


def osv_id(record_id: str) -> str:
    return f"{PREFIX}{record_id}"


def exported_entries(record: Record) -> list[Entry]:
    """The entries of `affected` whose range ends; none where packages act together."""
    packages = {canonical(entry["package"]) for entry in record.affected}
    if record.affected_when == AffectedWhen.ALL and len(packages) > 1:
        return []
    return [entry for entry in record.affected if ends(entry)]


def ends(entry: Entry) -> bool:
    """Whether the range ends: a version that is always newer is not affected."""
    return in_range(entry.get("events") or [], NEWEST) == NOT_AFFECTED


def document(record: Record, findings: Iterable[Finding], base: str) -> Json | None:
    """The entry of a record, None for one that is not exported.

    `findings`: standing verdicts of the bug itself; `base`: the site's address.
    """
    entries = exported_entries(record)
    if not entries:
        return None
    verdicts = sorted(findings, key=lambda row: (row.build, row.repro))
    page = base + record.get_absolute_url()
    first, last = dates.span(record, [row.observed_at for row in verdicts])
    found: Json = {
        "schema_version": SCHEMA_VERSION,
        "id": osv_id(record.id),
        "published": timestamp(first),
        "modified": timestamp(last),
        "summary": record.title_en,
        "details": details(record, page),
        "affected": [affected_entry(entry) for entry in entries],
        "references": references(record, page),
        "database_specific": {
            "record": record.id,
            "url": page,
            "title": record.both("title"),
            "symptom_class": record.symptom_class,
            "aliases": record.aliases,
            "preconditions": record.preconditions,
            "verdicts": [verdict(row, base) for row in verdicts],
        },
    }
    if record.publication == Publication.WITHDRAWN:
        found["withdrawn"] = timestamp(last)
    return found


def affected_entry(entry: Entry) -> Json:
    """One package: its range, and versions that are listed besides."""
    name = canonical(entry["package"])
    events = [dict(event) for event in entry["events"]]
    if not any("introduced" in event for event in events):
        events.insert(0, {"introduced": "0"})
    found: Json = {
        "package": {
            "ecosystem": ECOSYSTEM,
            "name": name,
            "purl": f"pkg:pypi/{name}",
        },
        "ranges": [{"type": "ECOSYSTEM", "events": events}],
    }
    listed = [row["raw"] for row in entry.get("builds", []) if row["state"] == AFFECTED]
    if listed:
        found["versions"] = listed
    return found


def details(record: Record, page: str) -> str:
    """What people see and where the rest stands, as Markdown."""
    lines = [record.summary_en or record.title_en]
    lines += [f"Needed for it: {row['text']['en']}" for row in record.preconditions]
    lines.append(f"Shown by execution, with workarounds, at {page}")
    return "\n\n".join(line for line in lines if line)


def references(record: Record, page: str) -> list[Json]:
    rows = [{"type": "WEB", "url": page}]
    rows += [
        {"type": REFERENCE_TYPES.get(row["kind"], "WEB"), "url": row["url"]}
        for row in record.sources
        if row.get("url")
    ]
    return rows


def verdict(row: Finding, base: str) -> Json:
    """What one run showed; its evidence is at the API's address."""
    return {
        "torch": row.build_raw,
        "device": row.device_class,
        "repro": row.repro,
        "verdict": row.verdict,
        "origin": row.origin,
        "evidence": f"{base}/api/v1/evidence/{row.evidence}",
        "observed_at": timestamp(row.observed_at),
    }
