"""What was sent: when it counts as confirmed, and how an origin is taken back.

This site's own runs and what came reviewed with the repository stand by themselves.
What somebody sent settles nothing until a run here agrees (which is then shown in its
place), until two independent senders agree and none contradicts, or until a maintainer
confirms it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from django.db.models import F, Q, QuerySet, TextField
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from kb.choices import OUR_ORIGINS
from kb.findings.claims import JUDGED
from kb.findings.writing import Cell
from kb.models import Finding
from runner import harness
from runner.models import Evidence

# Repro by name and digest, build and device class.
Case = tuple[str, str, str, str]
ENOUGH = 2


def cell_of(evidence: Evidence) -> Cell:
    return evidence.repro_name, evidence.build_id, evidence.device_class


def counting(rows: QuerySet[Evidence]) -> QuerySet[Evidence]:
    """Without what was withdrawn, and what was sent of another torch of that name."""
    rows = rows.filter(withdrawn=False)
    named = rows.alias(raw=said("raw"), git=said("git"))
    # SQLite gives the null of JSON as this word.
    unsaid = Q(git__isnull=True) | Q(git="") | Q(git="null")
    same_commit = unsaid | Q(build__git="")
    same = Q(raw=F("build__raw")) & (same_commit | Q(git=F("build__git")))
    return named.filter(Q(origin__in=OUR_ORIGINS) | same)


def said(fact: str) -> Cast:
    """What the evidence says of its build, to be compared as a text."""
    return Cast(KT(f"body__build__{fact}"), TextField())


def confirmations(rows: QuerySet[Evidence]) -> Callable[[Evidence], bool]:
    """Whether evidence among these rows of one record is confirmed."""
    agreed = agreements(rows)

    def is_confirmed(evidence: Evidence) -> bool:
        if not evidence.is_sent or evidence.vouched:
            return True
        return agreed.get(case_of(evidence)) == evidence.verdict

    return is_confirmed


def mark_standing(rows: Iterable[Evidence]) -> None:
    """Say of evidence of any records whether it settles something (`stands`).

    Ours does, and what was sent and is confirmed: by a maintainer, by other senders, or
    by a run here with the same verdict.
    """
    sent = [row for row in rows if row.is_sent and not row.withdrawn]
    if not sent:
        return
    records = {row.record_id for row in sent}
    agreed = agreements(counting(Evidence.objects.filter(record__in=records)))
    ours = Finding.objects.triggers().filter(
        record__in=records, origin__in=OUR_ORIGINS, stale=False, verdict__in=JUDGED
    )
    cells = ("record", "repro", "build", "device_class", "verdict")
    borne_out = set(ours.values_list(*cells))
    for row in sent:
        row.stands = (
            row.vouched
            or agreed.get(case_of(row)) == row.verdict
            or (row.record_id, *cell_of(row), row.verdict) in borne_out
        )


def case_of(evidence: Evidence) -> Case:
    digest, build = evidence.repro_digest, evidence.build_id
    return evidence.repro_name, digest, build, evidence.device_class


def agreements(rows: QuerySet[Evidence]) -> dict[Case, str]:
    """The verdict of each case on which all senders agree, two at least.

    Two tokens of one user are one sender, and only the newest of each counts.
    """
    sent = rows.exclude(origin__in=OUR_ORIGINS).filter(
        verdict__in=JUDGED, parameters="", body__harness=harness.PROTOCOL
    )
    case = ("repro_name", "repro_digest", "build_id", "device_class")
    newest: dict[Case, dict[tuple[bool, str], str]] = defaultdict(dict)
    for *key, verdict, origin, sender in sent.order_by(
        "started_at", "digest"
    ).values_list(*case, "verdict", "origin", "sender"):
        # A user's name and an origin without one may read alike.
        who = bool(sender), sender or origin
        name, digest, build, device = key
        newest[name, digest, build, device][who] = verdict
    return {
        case: next(iter(said.values()))
        for case, said in newest.items()
        if len(said) >= ENOUGH and len(set(said.values())) == 1
    }
