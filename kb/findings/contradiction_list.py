"""The contradictions of all records in steps of whole records, for page and API."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet, Value
from django.db.models.functions import Concat
from django.http import QueryDict

from kb.findings import checks, contradictions
from kb.models import Claim, Finding, Record

# Most records that one step reads, and how many with one query of their findings.
RECORDS_PER_STEP = 200
RECORDS_AT_ONCE = 8
SHOWN = 50
# Builds of one line that are shown without unfolding.
OPEN = 3
# Verdicts, and what checks of claims show: a third of all findings.
ASKED = Q(check_name="trigger") | Exists(
    Claim.objects.filter(
        record=OuterRef("record"),
        check_ref=Concat(OuterRef("repro"), Value(":"), OuterRef("check_name")),
    )
)
RECORD_ID = re.compile(r"NAN-\d{4}")


@dataclass(frozen=True)
class Row:
    """A line of the page: the builds on which one thing is contradicted alike."""

    sentence: dict[str, str]
    source: dict[str, Any]
    claim: Claim | None
    items: list[dict[str, Any]]

    @property
    def folds(self) -> bool:
        return len(self.items) > OPEN


@dataclass(frozen=True)
class Group:
    record: Record
    items: list[dict[str, Any]]

    @property
    def rows(self) -> list[Row]:
        sources = {source["id"]: source for source in self.record.sources}
        claims = {claim.cid: claim for claim in self.record.claims.all()}
        return [
            self.row(alike, sources, claims.get(alike[0]["claim"]))
            for alike in grouped(self.items)
        ]

    def row(
        self,
        alike: list[dict[str, Any]],
        sources: dict[str, dict[str, Any]],
        claim: Claim | None,
    ) -> Row:
        check = claim.check_ref.rpartition(":")[2] if claim else ""
        did = checks.title_of(self.record, check)
        sentence = contradictions.of_several(alike, did)
        return Row(sentence, sources.get(alike[0]["source"], {}), claim, alike)


@dataclass(frozen=True)
class Step:
    """`after` is the last record looked at; `is_more` if others follow it."""

    groups: list[Group]
    after: str
    is_more: bool


def build(query: QueryDict) -> Step:
    """The page that begins behind the record ?after=."""
    after = query.get("after", "")
    after = after if RECORD_ID.fullmatch(after) else ""
    return step(after, SHOWN, size=lambda group: len(group.rows))


def step(
    after: str,
    limit: int,
    newest: str | None = None,
    size: Callable[[Group], int] = lambda group: len(group.items),
) -> Step:
    """Whole records after one, until `limit` contradictions are found.

    `size` says how many those of one record are: lines of the page, or each build's.
    """
    rows = with_contradictions().filter(id__gt=after)
    if newest is not None:
        rows = rows.filter(id__lte=newest)
    groups: list[Group] = []
    total = 0
    for record in rows[:RECORDS_PER_STEP].iterator(chunk_size=RECORDS_AT_ONCE):
        after = record.id
        items = contradictions.everything(record, record.findings.all())
        if items:
            groups.append(Group(record, items))
            total += size(groups[-1])
        if total >= limit:
            break
    return Step(groups, after, rows.filter(id__gt=after).exists())


def grouped(items: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Those of one claim that show the same together; each other alone."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for at, item in enumerate(items):
        key = (item["claim"], item["observed"]) if item["claim"] else (at,)
        groups.setdefault(key, []).append(item)
    return list(groups.values())


def with_contradictions() -> QuerySet[Record]:
    """Published records by id, without those that are known to have none."""
    rows = Record.objects.visible().exclude(standing__contradicted=0)
    rows = rows.order_by("id").defer("html").prefetch_related("claims")
    return rows.prefetch_related(Prefetch("findings", Finding.objects.filter(ASKED)))


def newest_record() -> str:
    return Record.objects.order_by("-id").values_list("id", flat=True).first() or ""
