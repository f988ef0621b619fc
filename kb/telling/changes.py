"""Keeping each flip once, and an outbox row of it for everybody who wants to hear.

Flips follow from evidence and are computed anew with their record; what is kept here
is compared with them. One transaction keeps flip and rows, so that a kill loses and
doubles nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef

from kb.models import (
    Change,
    ChangeState,
    Delivery,
    Flip,
    Record,
    Subscription,
    TallyState,
)
from kb.telling import mail
from kb.telling.concern import Concern

KEY = ("record_id", "device_class", "kind", "build")


def generation() -> int:
    """The version counter of standings, without which no flip is new."""
    row = TallyState.objects.filter(pk=1).first()
    return row.generation if row else 0


def note() -> int:
    """Keep what is new since the last call; returns how many subscribers wait for it.

    Costs two small queries where nothing is.
    """
    now = generation()
    if ChangeState.objects.filter(pk=1, generation=now).exists():
        return 0
    with transaction.atomic():
        lock()
        changes = list(new_changes())
        Change.objects.bulk_create(changes)
        deliveries = list(deliveries_of(changes))
        Delivery.objects.bulk_create(deliveries)
        # Read before the flips: of what came in between the next call hears.
        ChangeState.objects.filter(pk=1).update(generation=now)
    return len(deliveries)


def lock() -> None:
    """One at a time until the end of the transaction."""
    ChangeState.objects.get_or_create(pk=1)
    ChangeState.objects.select_for_update().get(pk=1)


def new_changes() -> Iterator[Change]:
    """Each flip that is not kept yet; repros of a record that agree count once."""
    kept = Change.objects.filter(**{name: OuterRef(name) for name in KEY})
    seen = set()
    for flip in Flip.objects.filter(~Exists(kept)).order_by("pk"):
        key = tuple(getattr(flip, name) for name in KEY)
        if key not in seen:
            seen.add(key)
            names = (*KEY, "before", "build_raw", "observed_at")
            yield Change(**{name: getattr(flip, name) for name in names})


def deliveries_of(changes: list[Change]) -> Iterator[Delivery]:
    """A row for each subscriber of each change, however many reasons they have."""
    subscriptions = list(Subscription.objects.select_related("user"))
    if not (changes and subscriptions):
        return
    ids = {change.record_id for change in changes}
    rows = Record.objects.filter(pk__in=ids).defer("html").prefetch_related("findings")
    records = {row.pk: row for row in rows}
    for change in changes:
        concern = Concern(change, records[change.record_id])
        told = set()
        for subscription in subscriptions:
            who = subscription.user_id, subscription.webhook_id
            if who not in told and concern.concerns(subscription):
                told.add(who)
                yield delivery(change, subscription)


def delivery(change: Change, subscription: Subscription) -> Delivery:
    by_mail = subscription.user and mail.reaches(subscription.user)
    waits = subscription.webhook_id or by_mail
    return Delivery(
        change=change,
        user=subscription.user,
        webhook_id=subscription.webhook_id,
        language=subscription.language,
        state=Delivery.State.WAITING if waits else Delivery.State.SHOWN,
    )


def subscribe(**facts: Any) -> tuple[Subscription, bool]:
    """Add a subscription, unless there is an equal one. It hears of what comes after.

    What is there already is kept first, lest it be told as new.
    """
    with transaction.atomic():
        note()
        return Subscription.objects.get_or_create(**facts)
