"""What findings show of a claim and of a workaround. Pure; nothing is stored.

Only a check that ended in bug or clean says something: an error or a requirement
that is not met leaves the question open. Stale findings count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from kb.choices import JUDGED, ClaimKind, ClaimState, Outcome, Verdict
from kb.models import Claim, Finding

CONCLUSIVE = (Outcome.BUG, Outcome.CLEAN)
# Of what a claim's kind needs: advice shows something only where the bug is there.
VERDICTS_THAT_COUNT = {
    ClaimKind.CAUSE: JUDGED,
    ClaimKind.RANGE: JUDGED,
    ClaimKind.FIX: JUDGED,
    ClaimKind.WORKAROUND: (Verdict.BUG_PRESENT,),
    ClaimKind.OTHER: (Verdict.BUG_PRESENT,),
}


def evidence_for(claim: Claim, findings: Iterable[Finding]) -> list[Finding]:
    """The findings that decide the claim's state, in the order given."""
    return [finding for finding in findings if speaks_of(claim, finding)]


def speaks_of(claim: Claim, finding: Finding) -> bool:
    # Most findings are of another check: nothing else is asked of them.
    if not claim.check_ref or finding.check_ref != claim.check_ref:
        return False
    every_build = not claim.builds or "*" in claim.builds
    counting = VERDICTS_THAT_COUNT[ClaimKind(claim.kind)]
    if is_variation(claim.check_ref):
        counting = (Verdict.BUG_PRESENT,)
    return (
        not finding.stale
        and (every_build or finding.build in claim.builds)
        and finding.verdict in counting
        and finding.outcome in CONCLUSIVE
        and (not finding.is_model or claim.kind == ClaimKind.CAUSE)
    )


def is_variation(check_ref: str) -> bool:
    """A check that changes the trigger: without the bug it is clean in any case."""
    return check_ref.partition(":")[2].startswith(("workaround_", "refuted_"))


def state(claim: Claim, findings: Iterable[Finding]) -> ClaimState:
    """Verified, refuted or disputed by fresh findings; documented without any."""
    outcomes = [finding.outcome for finding in evidence_for(claim, findings)]
    as_claimed = [outcome == claim.expects for outcome in outcomes]
    if not outcomes:
        return ClaimState.DOCUMENTED
    if all(as_claimed):
        return ClaimState.VERIFIED
    return ClaimState.DISPUTED if any(as_claimed) else ClaimState.REFUTED


def workaround_status(name: str, findings: Iterable[Finding]) -> tuple[str, str | None]:
    """(verified | does_not_help | untested, digest of the deciding evidence).

    Where builds differ it does not help: nobody is sent to a remedy that failed.
    """
    decided = conclusive(name, findings)
    failed = [row for row in decided if row.outcome == Outcome.BUG]
    if not decided:
        return "untested", None
    if failed:
        return "does_not_help", failed[-1].evidence
    return "verified", decided[-1].evidence


def workaround_by_build(name: str, findings: Iterable[Finding]) -> dict[str, str]:
    """The status on each build where the workaround was run against the bug."""
    statuses: dict[str, str] = {}
    for row in conclusive(name, findings):
        if statuses.get(row.build) != "does_not_help":
            helped = row.outcome == Outcome.CLEAN
            statuses[row.build] = "verified" if helped else "does_not_help"
    return statuses


def conclusive(name: str, findings: Iterable[Finding]) -> list[Finding]:
    """Fresh runs of a workaround on builds that show the bug itself."""
    return [
        finding
        for finding in findings
        if finding.check_ref.endswith(f":workaround_{name}")
        and not finding.stale
        and not finding.is_model
        and finding.verdict == Verdict.BUG_PRESENT
        and finding.outcome in CONCLUSIVE
    ]
