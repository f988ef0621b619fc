"""The changes of a comparison with what is shown of them: records, runs, documents."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kb.choices import Outcome
from kb.findings.results import JUDGED
from kb.models import Finding, Record
from kb.releases.comparison import (
    BEGINS,
    BEHAVIOUR,
    CEASES,
    LIKELY_FIXED,
    LIKELY_NEW,
    Comparison,
    Item,
)
from kb.versions import runs
from kb.versions.affected import Answer, answer_for

TRIGGER = "trigger"
LIKELY = (LIKELY_NEW, LIKELY_FIXED)
NAMES = ("slug", "title_en", "title_zh")
# What documents say, of what was not run on a side.
DOCUMENTED = (
    *("affected", "affected_when", "preconditions", "aliases", "holds_on"),
    *("fixes", "sources", "upstream"),
)


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
    runs: tuple[list[Finding], list[Finding]]
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
    def workaround(self) -> str:
        return self.item.check.removeprefix("workaround_")

    @property
    def basis(self) -> str:
        return "documented" if self.item.kind in LIKELY else "run"


def shown(comparison: Comparison, items: Iterable[Item]) -> list[Shown]:
    listed = list(items)
    ids = {item.record for item in listed}
    records = Record.objects.only(*NAMES, *DOCUMENTED).in_bulk(ids)
    found = findings_of(ids, listed, comparison)
    return [
        of_item(item, records[item.record], found[item.record], comparison)
        for item in listed
        if item.record in records
    ]


def findings_of(
    ids: Iterable[str], items: list[Item], comparison: Comparison
) -> dict[str, list[Finding]]:
    builds = [*comparison.before.builds, *comparison.after.builds]
    checks = {TRIGGER, *(item.check for item in items if item.check)}
    rows = Finding.objects.fresh().of_the_bug().order_by()
    rows = rows.filter(record__in=ids, build__in=builds, check_name__in=checks)
    rows = rows.filter(verdict__in=JUDGED)
    if comparison.device:
        rows = rows.filter(device_class=comparison.device)
    found: defaultdict[str, list[Finding]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: builds.index(row.build)):
        if runs.has_packages(row, comparison.envs[0]):
            found[row.record_id].append(row)
    return found


def of_item(
    item: Item, record: Record, findings: list[Finding], found: Comparison
) -> Shown:
    own = [row for row in findings if item.kind not in LIKELY and is_of(item, row)]
    before, after = (
        [row for row in own if row.build in side.builds]
        for side in (found.before, found.after)
    )
    documented = None
    if not (before and after):
        first, last = (answer_for(record, env) for env in found.envs)
        documented = first, last
    said = differing(before, after) if item.kind == BEHAVIOUR else []
    return Shown(item, record, (before, after), documented, said)


def is_of(item: Item, row: Finding) -> bool:
    if item.repro and (row.repro, row.device_class) != (item.repro, item.device):
        return False
    if item.kind in (CEASES, BEGINS):
        conclusive = row.outcome in (Outcome.BUG, Outcome.CLEAN)
        return row.check_name == item.check and conclusive
    return row.check_name == TRIGGER


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
