"""What of a repro a piece of evidence executed, and whether the repro still has it.

New evidence carries the digests of `harness.parts_of`. Evidence from before carries the
digest of its source alone; `fixtures/executed.json` has the parts of those sources.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from django.conf import settings

from kb.models import Record, Repro
from portable import harness

Parts = Mapping[str, str]
# What a verdict rests on, and so whatever is said beside it.
VERDICT = ("requires", "reference", "control", "detector", "trigger")

of_source = lru_cache(maxsize=512)(harness.parts_of)


@lru_cache(maxsize=1)
def ledger() -> Mapping[str, Parts]:
    """Parts by digest of the source, for evidence that carries none."""
    found: Mapping[str, Parts] = json.loads(settings.EXECUTED_FILE.read_bytes())
    return found


def parts_in(ran: Mapping[str, Any]) -> Parts:
    """The parts that were executed; none where nobody knows.

    `ran`: what evidence says of its repro (`body["repro"]`).
    """
    parts: Parts = ran.get("parts") or ledger().get(ran["digest"], {})
    return parts


def holds(ran: Mapping[str, Any], now: Repro | None, check: str = "trigger") -> bool:
    """Whether what evidence says of a check is said of the repro as it is now."""
    if now is None or ran["digest"] == now.digest:
        return now is not None
    then, today = parts_in(ran), of_source(now.source)
    return bool(then) and all(
        then.get(part) == today.get(part) for part in needed(check)
    )


def needed(check: str) -> tuple[str, ...]:
    """The parts that a finding of this name rests on."""
    if not check.startswith("variant_"):
        return (*VERDICT, check)
    variant, name = check.removeprefix("variant_").split(" ", 1)
    return (*VERDICT, f"variant {variant}", f"workaround_{name}")


def checks_of(parts: Parts) -> list[str]:
    """The names of `harness.list_checks` that its source had, in any order."""
    return [name for name in parts if harness.is_check(name)]


def holding(record: Record) -> set[tuple[str, str]]:
    """(repro, digest of the source) of the evidence whose verdict still stands.

    One query more than the prefetched repros, and one row for each older source.
    """
    now = {repro.name: repro for repro in record.repros.all()}
    current = {(repro.name, repro.digest) for repro in now.values()}
    older = record.evidence.exclude(repro_digest__in=[d for _, d in current])
    rows = older.order_by().values_list("repro_name", "repro_digest", "body__repro")
    found = {(name, digest): ran for name, digest, ran in rows.iterator()}
    return current | {
        (name, digest)
        for (name, digest), ran in found.items()
        if holds(ran, now.get(name))
    }
