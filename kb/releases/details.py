"""The changes of a comparison with what is shown of them: records, runs, documents."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kb.findings.checks import Words, kind_of, title_of
from kb.models import Finding, Record
from kb.releases.comparison import (
    BEHAVIOUR,
    LIKELY_FIXED,
    LIKELY_NEW,
    Comparison,
    Item,
    Runs,
)
from kb.versions.affected import Answer, answer_for

LIKELY = (LIKELY_NEW, LIKELY_FIXED)


class Said(NamedTuple):
    """One observation of the trigger that differs; None: it was not made there."""

    name: str
    before: Any
    after: Any


class Evidenced(NamedTuple):
    """What is known of one side."""

    runs: list[Finding]
    documented: Answer | None


@dataclass(frozen=True)
class Shown:
    """`runs`: findings of the item on each side, oldest build first.

    What is likely rests on documents alone; they are given where a side was not run.
    """

    item: Item
    record: Record
    runs: Runs
    documented: tuple[Answer, Answer] | None
    said: list[Said]

    @property
    def sides(self) -> list[Evidenced]:
        documented = self.documented or (None, None)
        return [Evidenced(*both) for both in zip(self.runs, documented, strict=True)]

    @property
    def before(self) -> Evidenced:
        return self.sides[0]

    @property
    def after(self) -> Evidenced:
        return self.sides[1]

    @property
    def workaround(self) -> Words | None:
        """What it does, as a heading; None where the change is not a workaround's."""
        name = self.item.check
        return title_of(self.record, name) if kind_of(name) == "workaround" else None

    @property
    def basis(self) -> str:
        return "documented" if self.item.kind in LIKELY else "run"


def shown(comparison: Comparison, items: Iterable[Item]) -> list[Shown]:
    listed = list(items)
    ids = {item.record for item in listed}
    records = Record.objects.without_prose().in_bulk(ids)
    return [
        of_item(item, records[item.record], comparison)
        for item in listed
        if item.record in records
    ]


def of_item(item: Item, record: Record, found: Comparison) -> Shown:
    before, after = found.runs[item]
    documented = None
    if not (before and after):
        first, last = (answer_for(record, env) for env in found.envs)
        documented = first, last
    said = differing(before, after) if item.kind == BEHAVIOUR else []
    return Shown(item, record, (before, after), documented, said)


def differing(before: list[Finding], after: list[Finding]) -> list[Said]:
    old, new = said_by(before), said_by(after)
    return [
        Said(name, old.get(name), new.get(name))
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def said_by(rows: list[Finding]) -> dict[str, Any]:
    for row in rows:
        if row.said:
            return dict(json.loads(row.said))
    return {}
