"""A record's evidence, folded as the matrix folds: neighbours that show the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kb.versions.order import column_labels
from runner.pages.grid import Column, range_label
from runner.pages.run_page import EvidenceRow


@dataclass(frozen=True)
class EvidenceGroup:
    """Runs of neighbouring builds with one verdict, newest build first."""

    rows: list[EvidenceRow]
    label: str
    hits: int
    trials: int

    @property
    def first(self) -> Any:
        """One of them, for what all have alike."""
        return self.rows[0].evidence

    @property
    def stale(self) -> bool:
        return self.rows[0].stale

    @property
    def is_sent(self) -> bool:
        return bool(self.first.is_sent)

    @property
    def verdict(self) -> str:
        return str(self.first.verdict)

    @property
    def origin(self) -> str:
        return ", ".join(self.origins)

    @property
    def origins(self) -> list[str]:
        return list(dict.fromkeys(row.evidence.origin for row in self.rows))

    @property
    def builds(self) -> int:
        return len({row.evidence.build_slug for row in self.rows})


def folded(rows: Iterable[EvidenceRow]) -> list[EvidenceGroup]:
    """Those of one repro and device together, else in their order.

    How many trials a run had splits nothing; what was sent stands apart from what was
    made here or came with the record.
    """
    by_repro = sorted(rows, key=lambda row: shown(row)[:4])
    return [group_of(list(alike)) for _key, alike in groupby(by_repro, key=shown)]


def shown(row: EvidenceRow) -> tuple[Any, ...]:
    """What must be equal for two runs to be one line."""
    evidence: Any = row.evidence
    ran = (row.stale, evidence.repro_name, evidence.device_class)
    return (*ran, evidence.is_sent, evidence.verdict, evidence.reason)


def group_of(rows: list[EvidenceRow]) -> EvidenceGroup:
    items: list[Any] = [row.evidence for row in rows]
    return EvidenceGroup(
        rows,
        label_of(items),
        hits=sum(item.hits or 0 for item in items),
        trials=sum(item.trials or 0 for item in items),
    )


def label_of(rows: list[Any]) -> str:
    """The releases from the oldest to the newest."""
    labels = column_labels({row.build_slug: row.raw for row in rows})
    oldest, newest = rows[-1].build_slug, rows[0].build_slug
    return range_label(Column(oldest, labels[oldest]), Column(newest, labels[newest]))
