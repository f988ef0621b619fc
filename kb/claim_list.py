"""All claims of all listed records, with the state that execution gives them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.http import QueryDict

from kb.choices import ClaimState
from kb.models import Record
from kb.record_page import ClaimRow, claim_rows


@dataclass(frozen=True)
class StateOption:
    value: str
    count: int
    checked: bool


@dataclass(frozen=True)
class RecordClaims:
    record: Record
    rows: list[ClaimRow]


@dataclass(frozen=True)
class ClaimList:
    states: list[StateOption]
    groups: list[RecordClaims]
    shown: int
    total: int


def build(query: QueryDict) -> ClaimList:
    records = Record.objects.visible().with_everything()
    every = [
        RecordClaims(record, claim_rows(record, list(record.findings.all())))
        for record in records
    ]
    wanted = set(query.getlist("state")) & set(ClaimState.values)
    kept = [
        RecordClaims(group.record, [row for row in group.rows if keep(row, wanted)])
        for group in every
    ]
    counts = Counter(row.state for group in every for row in group.rows)
    return ClaimList(
        states=[
            StateOption(state, counts[state], state in wanted)
            for state in ClaimState.values
        ],
        groups=[group for group in kept if group.rows],
        shown=sum(len(group.rows) for group in kept),
        total=counts.total(),
    )


def keep(row: ClaimRow, wanted: set[str]) -> bool:
    return not wanted or row.state in wanted
