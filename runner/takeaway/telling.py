"""How much a run of a repro would tell: what nobody ran comes first in a kit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from kb.choices import JUDGED, OUR_ORIGINS, ClaimState
from kb.findings import claims
from kb.models import Claim, Finding, Repro
from runner.models import Evidence


@dataclass(frozen=True)
class Telling:
    """`unseen`: its record has no verdict on the repro's class of device.

    `decides`: claims and workarounds that a run of it could settle and that no run has.
    `usual_s`: the median of what runs of this source took on that class, or None.
    """

    unseen: bool
    decides: int
    usual_s: float | None


def of_repros(repros: Iterable[Repro]) -> dict[int, Telling]:
    """By the id of the repro, in four queries."""
    findings = Finding.objects.fresh().by_record()
    seen = set(
        Finding.objects.fresh()
        .triggers()
        .filter(verdict__in=JUDGED)
        .values_list("record_id", "device_class")
    )
    asked: dict[str, list[Claim]] = defaultdict(list)
    for claim in Claim.objects.exclude(check_ref=""):
        asked[claim.record_id].append(claim)
    taken = durations()
    return {
        repro.pk: Telling(
            unseen=(repro.record_id, repro.device) not in seen,
            decides=open_questions(
                repro, asked[repro.record_id], findings.get(repro.record_id, [])
            ),
            usual_s=median(taken[repro.digest]) if taken.get(repro.digest) else None,
        )
        for repro in repros
    }


def open_questions(
    repro: Repro, asked: Iterable[Claim], findings: list[Finding]
) -> int:
    """Claims about a check of this repro, and its workarounds, without an answer."""
    own = f"{repro.name}:"
    unsettled = [
        claim
        for claim in asked
        if claim.check_ref.startswith(own)
        and claims.state(claim, findings) == ClaimState.DOCUMENTED
    ]
    untested = [
        name
        for name in repro.checks
        if name.startswith("workaround_")
        and not claims.conclusive(name.removeprefix("workaround_"), findings)
    ]
    return len(unsettled) + len(untested)


def durations() -> dict[str, list[float]]:
    """Seconds that runs of ours took, by digest, which tells the device, too."""
    found = defaultdict(list)
    ours = Evidence.objects.filter(origin__in=OUR_ORIGINS)
    for digest, seconds in ours.values_list("repro_digest", "body__duration_s"):
        found[digest].append(float(seconds))
    return found
