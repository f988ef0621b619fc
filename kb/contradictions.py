"""Where what is documented and what was run do not fit. Shown, never resolved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kb.choices import Verdict
from kb.environment import Environment
from kb.models import Finding, Record
from kb.results import Cell, cells
from kb.versions import AFFECTED, NOT_AFFECTED, affected

OPPOSITE = {Verdict.BUG_PRESENT: NOT_AFFECTED, Verdict.BUG_ABSENT: AFFECTED}


def of_record(record: Record, findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Builds whose fresh verdict is the opposite of the documented range.

    Incomplete evidence is no contradiction: unknown answers are left out, and so is
    a bug not seen on a GPU where the record says that the architecture matters.
    """
    entries = [item for item in record.affected if item["package"] == "torch"]
    if len(entries) != len(record.affected):
        # The bug lives in another package; a torch build alone settles nothing.
        return []
    needs_gpu = any(item["key"] == "gpu_arch" for item in record.preconditions)
    return [
        contradiction(cell, documented)
        for cell in cells(findings)
        if not (needs_gpu and cell.verdict == Verdict.BUG_ABSENT)
        for documented in [answer_of(entries, record.affected_when, cell)]
        if OPPOSITE.get(Verdict(cell.verdict)) == documented
    ]


def answer_of(entries: list[Any], affected_when: str, cell: Cell) -> str:
    env = Environment(torch_raw=cell.build_raw)
    return affected(entries, affected_when, env).answer


def contradiction(cell: Cell, documented: str) -> dict[str, Any]:
    return {
        "build": cell.build,
        "device": cell.device_class,
        "documented": documented,
        "observed": cell.verdict,
        "hits": cell.hits,
        "trials": cell.trials,
        "evidence": cell.evidence,
    }
