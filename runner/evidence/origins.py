"""Maintainers' say about what was sent: whole origins withdrawn, evidence confirmed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Q, QuerySet

from kb.choices import OUR_ORIGINS
from kb.findings.writing import Cell
from kb.hourly import Quota
from kb.models import Record
from runner.evidence import faces, store
from runner.models import Evidence, Sweep


def sent() -> QuerySet[Evidence]:
    return Evidence.objects.exclude(origin__in=OUR_ORIGINS)


@dataclass
class Sender:
    """How much came under a name. `signed`: of it by fingerprint of the key."""

    name: str
    evidence: int = 0
    withdrawn: int = 0
    signed: dict[str, int] = field(default_factory=dict)


def listed() -> list[Sender]:
    """Everybody who sent something; sweeps are counted with the evidence."""
    gone = Count("pk", filter=Q(withdrawn=True))
    found: dict[str, Sender] = {}
    for rows in (sent(), Sweep.objects.exclude(origin__in=OUR_ORIGINS)):
        named = rows.order_by("origin", "signed_by").values_list("origin", "signed_by")
        for name, key, count, away in named.annotate(sent=Count("pk"), gone=gone):
            sender = found.setdefault(name, Sender(name))
            sender.evidence += count
            sender.withdrawn += away
            if key:
                sender.signed[key] = sender.signed.get(key, 0) + count
    return sorted(found.values(), key=lambda sender: sender.name)


def wait_s(origin: str) -> int:
    """Seconds until this origin may send more; 0 where it may now."""
    rows = sent().filter(origin=origin)
    return Quota.of(rows, "added_at", settings.EVIDENCE_PER_HOUR).wait_s


def withdraw(origin: str) -> int:
    """Take back all that this origin sent; kept for the record. How many it were.

    Sweeps are counted with the evidence.
    """
    return mark_all(origin, withdrawn=True)


def restore(origin: str) -> int:
    return mark_all(origin, withdrawn=False)


def mark_all(origin: str, *, withdrawn: bool) -> int:
    """Everything of an origin or nothing."""
    rows = sent().filter(origin=origin, withdrawn=not withdrawn)
    with transaction.atomic():
        sweeps = mark_sweeps(origin, withdrawn=withdrawn)
        return sweeps + mark(rows, withdrawn=withdrawn)


def mark_sweeps(origin: str, *, withdrawn: bool) -> int:
    """Nothing follows from a sweep but its map, so there is nothing to derive."""
    rows = Sweep.objects.exclude(origin__in=OUR_ORIGINS).filter(origin=origin)
    return rows.exclude(withdrawn=withdrawn).update(withdrawn=withdrawn)


def confirm(rows: QuerySet[Evidence]) -> int:
    """A maintainer bears out what was sent, having looked at it."""
    return mark(rows.exclude(origin__in=OUR_ORIGINS), vouched=True)


def mark(rows: QuerySet[Evidence], **changes: bool) -> int:
    """Change these rows and what follows from them, all in one transaction."""
    with transaction.atomic():
        changed = list(rows.defer("body"))
        Evidence.objects.filter(pk__in=[row.pk for row in changed]).update(**changes)
        derive_again(changed)
    return len(changed)


def derive_again(rows: Iterable[Evidence]) -> None:
    cells: dict[str, set[Cell]] = defaultdict(set)
    for row in rows:
        if row.record_id is not None:
            cells[row.record_id].add(faces.cell_of(row))
    for record in Record.objects.filter(pk__in=cells).order_by("pk"):
        store.derive(record, cells[record.pk])
