"""Claims of a record as shown: state, source, and what their checks did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from kb.choices import ClaimState
from kb.findings import checks, claims
from kb.findings.checks import Words
from kb.models import Claim, Finding, Record


@dataclass(frozen=True)
class ClaimRow:
    claim: Claim
    state: str
    source: dict[str, Any]
    did: Words
    used: list[Finding]

    @property
    def builds(self) -> int:
        return len({row.build for row in self.used})

    @property
    def is_modelled(self) -> bool:
        """Only a model of the mechanism was run, not the bug itself."""
        return bool(self.used) and all(row.is_model for row in self.used)

    @property
    def last(self) -> Finding | None:
        return max(self.used, key=lambda row: row.observed_at, default=None)

    @property
    def tally(self) -> list[tuple[str, int]]:
        """Outcomes of the check, each with the number of its builds."""
        return sorted(Counter(row.outcome for row in self.used).items())


def source_of(record: Record, entry: dict[str, Any]) -> dict[str, Any]:
    key = entry.get("source")
    return next((item for item in record.sources if item["id"] == key), {})


def claim_rows(record: Record, findings: list[Finding]) -> list[ClaimRow]:
    return [
        ClaimRow(
            claim=claim,
            state=claims.state(claim, findings).value,
            source=source_of(record, {"source": claim.source}),
            did=checks.title_of(record, claim.check_ref.rpartition(":")[2]),
            used=claims.evidence_for(claim, findings),
        )
        for claim in record.claims.all()
    ]


def contested(rows: list[ClaimRow]) -> list[ClaimRow]:
    """Those that execution contradicts."""
    states = {ClaimState.REFUTED.value, ClaimState.DISPUTED.value}
    return [row for row in rows if row.state in states]
