"""All claims of all listed records, with the state that execution gives them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet, Sum
from django.http import QueryDict

from kb.choices import ClaimState
from kb.models import Record, Standing
from kb.pages.facets import Option
from kb.pages.paging import Window, window
from kb.pages.record.claim_rows import ClaimRow, claim_rows, contested

# Records on a page; each brings its claims.
PER_PAGE = 12
# Of a record, without unfolding.
OPEN = 4


@dataclass(frozen=True)
class RecordClaims:
    """`first` are shown at once, `further` unfold."""

    record: Record
    first: list[ClaimRow]
    further: list[ClaimRow]


@dataclass(frozen=True)
class ClaimsPage:
    """`window`: of the records that have such a claim. `shown`: claims on all pages."""

    states: list[Option]
    groups: list[RecordClaims]
    window: Window
    shown: int
    total: int


def build(query: QueryDict) -> ClaimsPage:
    sums = {state: Sum(state) for state in ClaimState.values}
    counts = Standing.objects.aggregate(**sums)
    checked = set(query.getlist("state")) & set(ClaimState.values)
    states = checked or set(ClaimState.values)
    records = with_claims_in(states)
    page_window = window(query.get("page", ""), records.count(), PER_PAGE)
    ids = list(records.values_list("pk", flat=True)[page_window.rows])
    return ClaimsPage(
        states=[
            Option(state.value, str(state.label), counts[state] or 0, state in checked)
            for state in ClaimState
        ],
        groups=[claims_of(record, checked) for record in with_claims(ids)],
        window=page_window,
        shown=sum(counts[state] or 0 for state in states),
        total=sum(count or 0 for count in counts.values()),
    )


def with_claims_in(states: set[str]) -> QuerySet[Standing]:
    """Standings of the records with a claim in any of these states, by id."""
    any_of = reduce(or_, (Q(**{f"{state}__gt": 0}) for state in sorted(states)))
    return Standing.objects.filter(any_of).order_by("pk")


def with_claims(ids: list[str]) -> QuerySet[Record]:
    rows = Record.objects.filter(pk__in=ids).order_by("pk")
    return rows.prefetch_related("claims", "findings").defer("html")


def claims_of(record: Record, checked: set[str]) -> RecordClaims:
    """Open are those that were asked for, else those that execution contradicts."""
    rows = claim_rows(record, list(record.findings.all()))
    if checked:
        rows = [row for row in rows if row.state in checked]
    first = (rows if checked else contested(rows))[:OPEN]
    return RecordClaims(record, first, [row for row in rows if row not in first])
