"""Carrying out what the outbox holds: claimed, tried, tried later, given up.

Any number of processes may. A claim raises the attempt, and only who raised it writes
how it ended. Who is killed in between is followed by another after LEASE, and what a
receiver took already comes again under the same id.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from django.db.models import F, QuerySet
from django.utils import timezone

from kb.addresses import record_urls
from kb.findings.results import timestamp
from kb.models import Delivery
from kb.telling import mail, posting
from kb.telling.reach import Unreachable

log = logging.getLogger(__name__)

WAITING, SENT, GIVEN_UP = (
    Delivery.State.WAITING,
    Delivery.State.SENT,
    Delivery.State.GIVEN_UP,
)
# Above the longest attempt (kb.telling.posting.LIMIT_S).
LEASE = timedelta(minutes=2)
FIRST_PAUSE = timedelta(minutes=1)
LONGEST_PAUSE = timedelta(hours=4)
GIVE_UP_AFTER = timedelta(days=1)
# Of one account in one mail.
TOGETHER = 50


def due() -> QuerySet[Delivery]:
    rows = Delivery.objects.filter(state=WAITING, next_at__lte=timezone.now())
    return rows.order_by("next_at", "created_at")


def deliver_due() -> int:
    """Everything that is due now; returns how many were told."""
    told = 0
    while (row := due().first()) is not None:
        claimed = [one for one in with_its_like(row) if claim(one)]
        if claimed:
            told += deliver(claimed)
    return told


def with_its_like(row: Delivery) -> list[Delivery]:
    """What goes in one message: of an account all that waits, of a webhook one."""
    rows = due().select_related("change__record", "user", "webhook")
    rows = rows.defer("change__record__html")
    if row.user_id:
        return list(rows.filter(user=row.user_id)[:TOGETHER])
    return list(rows.filter(pk=row.pk))


def claim(row: Delivery) -> bool:
    """Whether it is ours to try; for LEASE nobody else will."""
    mine = Delivery.objects.filter(pk=row.pk, state=WAITING, attempts=row.attempts)
    row.attempts += 1
    until = timezone.now() + LEASE
    return bool(mine.update(attempts=F("attempts") + 1, next_at=until))


def deliver(claimed: list[Delivery]) -> int:
    try:
        send(claimed)
    except Unreachable as error:
        for row in claimed:
            note_failure(row, str(error))
        return 0
    for row in claimed:
        write(row, state=SENT, error="", ended_at=timezone.now())
    return len(claimed)


def send(claimed: list[Delivery]) -> None:
    row = claimed[0]
    if row.webhook:
        posting.post(row.webhook, flip_message(row))
    else:
        mail.send(claimed)


def note_failure(row: Delivery, reason: str) -> None:
    now = timezone.now()
    if now - row.created_at >= GIVE_UP_AFTER:
        log.warning("Gave up telling %s: %s", row.webhook or "an account", reason)
        write(row, state=GIVEN_UP, error=reason, ended_at=now)
        return
    last = row.created_at + GIVE_UP_AFTER
    write(row, error=reason, next_at=min(now + pause(row.attempts), last))


def pause(attempts: int) -> timedelta:
    """After so many: 1, 2, 4, … minutes, at most 4 hours."""
    return min(FIRST_PAUSE * (1 << min(attempts - 1, 20)), LONGEST_PAUSE)


def write(row: Delivery, **fields: Any) -> None:
    mine = Delivery.objects.filter(pk=row.pk, state=WAITING, attempts=row.attempts)
    mine.update(**fields)


# --- what a webhook is sent -------------------------------------------------------
def flip_message(row: Delivery) -> dict[str, Any]:
    change, record = row.change, row.change.record
    return {
        "id": str(row.pk),
        "type": "flip",
        "record": record.pk,
        "title": {"en": record.title_en, "zh": record.title_zh},
        "kind": change.kind,
        "build": change.build,
        "before": change.before,
        "device": change.device_class,
        "observed_at": timestamp(change.observed_at),
        "urls": record_urls(record),
    }
