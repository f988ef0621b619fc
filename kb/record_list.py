"""The list of records: verdicts on one build, facets with counts, groups."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _

from kb import claims, results
from kb.choices import SymptomClass, Verdict
from kb.models import Finding, Record

UNTESTED = "untested"
MODEL = "model"


@dataclass(frozen=True)
class Row:
    """A record and its newest fresh verdict on the chosen build, if any."""

    record: Record
    finding: Finding | None
    first_bad: str | None
    first_good: str | None
    has_workaround: bool

    @property
    def verdict(self) -> str:
        if self.finding is None:
            return UNTESTED
        if self.finding.is_model:
            return MODEL
        return self.finding.verdict


@dataclass(frozen=True)
class Option:
    value: str
    label: str
    count: int
    checked: bool


@dataclass(frozen=True)
class Facet:
    name: str
    label: str
    options: list[Option]


@dataclass(frozen=True)
class Group:
    label: str
    rows: list[Row]


@dataclass(frozen=True)
class RecordList:
    build: str
    builds: list[str]
    group_by: str
    facets: list[Facet]
    groups: list[Group]
    shown: int
    total: int


def build(query: QueryDict) -> RecordList:
    records = list(Record.objects.visible().prefetch_related("findings", "repros"))
    slugs = tested(records)
    chosen = query.get("build", "")
    if chosen not in slugs:
        chosen = most_tested(records, slugs)
    rows = [row_of(record, chosen) for record in records]
    kept = [row for row in rows if matches(row, query)]
    group_by = "component" if query.get("group") == "component" else "symptom"
    return RecordList(
        build=chosen,
        builds=slugs,
        group_by=group_by,
        facets=facets(rows, query),
        groups=groups(kept, group_by),
        shown=len(kept),
        total=len(rows),
    )


def tested(records: Iterable[Record]) -> list[str]:
    """Slugs of all builds with a fresh trigger, newest version first."""
    found = {
        row.build: row.build_raw
        for record in records
        for row in record.findings.all()
        if row.is_fresh_verdict
    }
    return sorted(
        found, key=lambda slug: results.build_order(found[slug], slug), reverse=True
    )


def most_tested(records: Iterable[Record], slugs: list[str]) -> str:
    """The build on which most records have a result; of equals the newest."""
    counts = Counter(
        build
        for record in records
        for build in {
            row.build for row in record.findings.all() if row.is_fresh_verdict
        }
    )
    return max(slugs, key=lambda slug: counts[slug], default="")


def row_of(record: Record, build: str) -> Row:
    findings = list(record.findings.all())
    here = [row for row in findings if row.build == build and row.is_fresh_verdict]
    # The bug itself before a model of it; then the newest.
    here.sort(key=lambda row: (not row.is_model, row.observed_at))
    summary = results.summary(findings)
    return Row(
        record=record,
        finding=here[-1] if here else None,
        first_bad=summary["first_bad"],
        first_good=summary["first_good"],
        has_workaround=any(verified(entry, findings) for entry in record.workarounds),
    )


def verified(entry: dict[str, Any], findings: list[Finding]) -> bool:
    inputs = [row.as_claim_input() for row in findings]
    return claims.workaround_status(entry["name"], inputs)[0] == "verified"


VALUES: dict[str, Callable[[Row], list[str]]] = {
    "verdict": lambda row: [row.verdict],
    "symptom": lambda row: [row.record.symptom_class],
    "component": lambda row: list(row.record.components),
    "workaround": lambda row: ["verified"] if row.has_workaround else [],
}


def matches(row: Row, query: QueryDict) -> bool:
    """Within a facet any value, across facets all."""
    return all(
        not query.getlist(name) or set(values(row)) & set(query.getlist(name))
        for name, values in VALUES.items()
    )


def facets(rows: list[Row], query: QueryDict) -> list[Facet]:
    labels = {
        "verdict": _("On this build"),
        "symptom": _("Symptom"),
        "component": _("Component"),
        "workaround": _("Workaround"),
    }
    found = []
    for name, label in labels.items():
        counts = Counter(value for row in rows for value in VALUES[name](row))
        options = [
            Option(
                value, option_label(name, value), count, value in query.getlist(name)
            )
            for value, count in counts.most_common()
        ]
        if options:
            found.append(Facet(name, label, options))
    return found


def option_label(facet: str, value: str) -> str:
    if facet == "symptom":
        return str(SymptomClass(value).label)
    if facet == "workaround":
        return _("verified by execution")
    if facet == "verdict":
        special = {UNTESTED: _("not tested"), MODEL: _("model only")}
        return special.get(value) or str(Verdict(value).label)
    return value


def groups(rows: list[Row], group_by: str) -> list[Group]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        values = VALUES[group_by](row)
        # In one group only: a list that repeats records is hard to count.
        found[values[0] if values else "–"].append(row)
    return [
        Group(option_label(group_by, value) if value != "–" else value, found[value])
        for value in sorted(found, key=lambda value: (-len(found[value]), value))
    ]
