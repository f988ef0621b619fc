"""The checks of one record by builds, as the record's own page shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from kb.models import Finding, Record
from runner.pages.grid import (
    Column,
    Span,
    columns_of,
    fold,
    folded_heads,
    over_heads,
    range_label,
)
from runner.pages.observations import group_of
from runner.pages.squares import check_squares

SHOWN_CHECKS = ("workaround", "refuted")


@dataclass(frozen=True)
class CheckRow:
    repro: str
    name: str
    spans: list[Span]


@dataclass(frozen=True)
class Head:
    """Neighbouring builds that no check tells apart."""

    columns: list[Column]

    @property
    def label(self) -> str:
        return range_label(self.columns[0], self.columns[-1])

    @property
    def build(self) -> Column | None:
        """The only one, or None of several."""
        return self.columns[0] if len(self.columns) == 1 else None


@dataclass(frozen=True)
class CheckMatrix:
    heads: list[Head]
    rows: list[CheckRow]


def build(record: Record) -> CheckMatrix:
    """Workarounds and refuted checks of the bug itself, by tested build.

    The trigger is what the strip shows; where several repros differ, each has a row.
    """
    real = [repro for repro in record.repros.all() if not repro.is_model]
    shown = (*SHOWN_CHECKS, *(["trigger"] if len(real) > 1 else []))
    findings = [
        row
        for row in record.findings.all()
        if not row.stale and not row.is_model and group_of(row.check_name) in shown
    ]
    columns = columns_of({row.build: row.build_raw for row in findings})
    by_check: dict[tuple[str, str], dict[str, Finding]] = defaultdict(dict)
    # Where a build has both, the GPU's result: a GPU repro on a processor says little.
    for row in sorted(findings, key=lambda row: row.device_class):
        by_check[row.repro, row.check_name][row.build] = row
    keys = check_order(record, by_check)
    spans = [
        fold(columns, check_squares([by_check[key].get(c.slug) for c in columns]))
        for key in keys
    ]
    heads = folded_heads(spans)
    rows = [
        CheckRow(*key, over_heads(row, heads))
        for key, row in zip(keys, spans, strict=True)
    ]
    return CheckMatrix([Head(head) for head in heads], rows)


def check_order(
    record: Record, keys: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    """(repro, check) in the order of the repros' own text."""
    order = [
        (repro.name, name) for repro in record.repros.all() for name in repro.checks
    ]
    return sorted(
        keys, key=lambda key: order.index(key) if key in order else len(order)
    )
