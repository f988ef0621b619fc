"""What answers say of records whatever was pasted, kept until something changes.

A record that many paste about is read again only after a record or a finding changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from django.db.models import Prefetch, prefetch_related_objects

from kb.choices import Publication, Verdict
from kb.findings import diagnoses, remedies
from kb.models import Finding, Record, Repro
from kb.search.index.generation import Generation

# Records in memory at most, each of some 30 kB; a single answer needs far fewer.
KEPT = 500
# Columns of a record that an answer needs.
FIELDS = (
    "slug",
    "title_en",
    "title_zh",
    "affected",
    "affected_when",
    "holds_on",
    "preconditions",
    "workarounds",
    "diagnoses",
    "fixes",
    "modified",
    "depth",
    "aliases",
    "components",
    "summary_en",
    "summary_zh",
    "symptom_en",
    "symptom_class",
)
# Many records have neither: asking costs a tenth of a query that finds nothing.
# As text, as the ORM takes longer to write the query than a database to answer it.
READ = f"""
SELECT id, {", ".join(FIELDS)},
    EXISTS (SELECT 1 FROM kb_repro r WHERE r.record_id = kb_record.id) AS has_repros,
    EXISTS (SELECT 1 FROM kb_finding f WHERE f.record_id = kb_record.id) AS has_findings
FROM kb_record WHERE publication = %s AND id IN ({{}})
"""  # noqa: S608
REMEDY_FIELDS = ("name", "kind", "apply", "cost")
Json = dict[str, Any]


@dataclass(frozen=True)
class Ran:
    """What ran of records that were read at once; read when one of them is asked.

    `records`: those of them of which anything ran.
    """

    records: Collection[str]

    @cached_property
    def findings(self) -> dict[str, list[Finding]]:
        """By record, as findings are ordered everywhere."""
        if not self.records:
            return {}
        # Sorted here: building the ORDER BY takes longer than the query.
        rows = Finding.objects.that_answer().filter(record__in=self.records).order_by()
        found: dict[str, list[Finding]] = defaultdict(list)
        for finding in sorted(rows, key=in_order):
            found[finding.record_id].append(finding)
        return dict(found)


@dataclass(frozen=True)
class Known:
    """A visible record with what ran. Shared by all requests: not to be modified."""

    row: Record
    ran: Ran
    has_repros: bool
    _workarounds: dict[str | None, list[Json]] = field(default_factory=dict)

    @property
    def findings(self) -> list[Finding]:
        return self.ran.findings.get(self.row.pk, [])

    @cached_property
    def is_seen(self) -> bool:
        """Whether a run showed the bug."""
        return any(row.verdict == Verdict.BUG_PRESENT for row in self.findings)

    @cached_property
    def with_parameters(self) -> list[Repro]:
        """The repros that a reader may run with values of his own."""
        repros = self.row.repros.all() if self.has_repros else ()
        return [repro for repro in repros if repro.header.get("parameters")]

    @cached_property
    def diagnoses(self) -> list[Json]:
        """The code that tells whether the bug is a reader's own."""
        if not self.row.diagnoses:
            return []  # what ran need not be read for that
        inputs = (finding.as_claim_input() for finding in self.findings)
        return diagnoses.of_record(self.row, inputs)

    def workarounds(self, raw: str | None) -> list[Json]:
        """Each with its status on this version of torch if it ran there, or on all."""
        if all(finding.build_raw != raw for finding in self.findings):
            raw = None
        if raw not in self._workarounds:
            found = remedies.of_record(self.row, self.findings, raw)
            self._workarounds[raw] = [document(remedy) for remedy in found]
        return self._workarounds[raw]


def document(remedy: remedies.Remedy) -> Json:
    return {
        **{key: remedy.entry[key] for key in REMEDY_FIELDS},
        "status": remedy.status,
        "evidence": remedy.evidence,
        "seen_on": [cell.build for cell in remedy.seen_on],
        "not_executed": remedy.not_executed or None,
    }


def known(ids: Iterable[str], generation: Generation) -> dict[str, Known]:
    """Those of these records that are visible."""
    kept, wanted = kept_of(generation), list(ids)
    found = {pk: row for pk in wanted if (row := kept.get(pk))}
    if missing := [pk for pk in wanted if pk not in found]:
        found |= (read_now := read(missing))
        if len(kept) > KEPT:
            kept.clear()
        kept |= read_now
    return found


@lru_cache(maxsize=1)
def names_of(_generation: Generation) -> dict[str, str]:
    """Ids of visible records by what symptoms call them: slugs and aliases."""
    rows = Record.objects.visible().values_list("pk", "slug", "aliases")
    return {name: pk for pk, slug, aliases in rows for name in (*aliases, slug)}


@lru_cache(maxsize=1)
def kept_of(_generation: Generation) -> dict[str, Known]:
    return {}


def read(ids: Collection[str]) -> dict[str, Known]:
    if not ids:
        return {}
    values = [Publication.PUBLISHED, *ids]
    # Any: with columns that the model does not have.
    rows: list[Any] = list(Record.objects.raw(READ.format(placeholders(ids)), values))
    with_repros = [row for row in rows if row.has_repros]
    columns = ("record", "name", "fidelity", "device", "checks", "header")
    prefetch_related_objects(
        with_repros, Prefetch("repros", Repro.objects.only(*columns))
    )
    ran = Ran([row.pk for row in rows if row.has_findings])
    return {row.pk: Known(row, ran, bool(row.has_repros)) for row in rows}


def placeholders(values: Collection[str]) -> str:
    return ", ".join(["%s"] * len(values))


def in_order(finding: Finding) -> tuple[str, ...]:
    """As findings are ordered everywhere."""
    return finding.repro, finding.build, finding.check_name, finding.device_class
