"""What answers say of records whatever was pasted, kept until something changes.

A record that many paste about is read again only after a record or a finding changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from django.db.models import Prefetch

from kb.findings import diagnoses, remedies
from kb.findings.remedies import Remedy
from kb.models import Finding, Record, Repro
from kb.search.index.generation import Generation

# Records in memory at most, each of some 30 kB; a single answer needs far fewer.
KEPT = 500
# As findings are ordered everywhere.
ORDER = ("repro", "build", "check_name", "device_class")
Json = dict[str, Any]


@dataclass(frozen=True)
class Known:
    """A visible record with what ran. Shared by all requests: not to be modified."""

    row: Record
    _workarounds: dict[str | None, list[Remedy]] = field(default_factory=dict)

    @cached_property
    def findings(self) -> list[Finding]:
        return list(self.row.findings.all())

    @cached_property
    def verdicts(self) -> list[Finding]:
        """Of the findings those that can answer for an environment."""
        rows = self.findings
        return [row for row in rows if row.is_fresh_verdict and not row.is_model]

    @cached_property
    def diagnoses(self) -> list[Json]:
        """The code that tells whether the bug is a reader's own."""
        return diagnoses.of_record(self.row, self.findings)

    def workarounds(self, raw: str | None) -> list[Remedy]:
        """Each with its status on this version of torch if it ran there, or on all."""
        if all(finding.build_raw != raw for finding in self.findings):
            raw = None
        if raw not in self._workarounds:
            found = remedies.of_record(self.row, self.findings, raw)
            self._workarounds[raw] = found
        return self._workarounds[raw]


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
    columns = ("record", "name", "fidelity", "device", "checks")
    rows = Record.objects.visible().filter(pk__in=ids).defer("html")
    rows = rows.prefetch_related(
        Prefetch("repros", Repro.objects.only(*columns)),
        Prefetch("findings", Finding.objects.that_answer().order_by(*ORDER)),
    )
    return {row.pk: Known(row) for row in rows}
