"""What holds for every row of the queue: leases, fences, cancelling, the end.

Rows change by conditional UPDATEs only, so two processes that want the same change
cannot both have it. A lease ends by the database's clock. Every write of a worker is
filtered by `attempt` (`held`): one that lost its lease can write nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from runner.models import Worker
from runner.models.job import LongJob, QueueJob
from runner.runs.refusals import Refusal, RunRefused
from runner.runs.retries import LEASE, LONG_IS_LOST

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")
Kind = TypeVar("Kind", bound=QueueJob)
Long = TypeVar("Long", bound=LongJob)

DATABASE_PAUSE_S = 0.5
# Long jobs that have not ended, of one requester and of the site, each kind for itself.
OWN_JOBS = 2
ALL_JOBS = 20
# For refusals that end when a job does, not after a known time.
RETRY_S = 30
State = QueueJob.State


@dataclass(frozen=True)
class Beat:
    """`alive` is False once the lease was lost: stop and write nothing."""

    alive: bool
    cancel_requested: bool = False


def row_of(job: Kind) -> QuerySet[Kind]:
    return type(job)._default_manager.filter(pk=job.pk)


def held(job: Kind) -> QuerySet[Kind]:
    """The job's row, if this attempt still holds its lease."""
    return row_of(job).filter(attempt=job.attempt, state=State.RUNNING)


def retry(query: Callable[[], Answer], at_most: timedelta = LEASE) -> Answer:
    """Repeat a query while the database is unreachable, for at most one lease.

    A verdict may have taken minutes of a GPU. Where the first write succeeded and only
    its answer was lost, the fencing token keeps the second from writing again.
    """
    deadline = time.monotonic() + at_most.total_seconds()
    while True:
        try:
            return query()
        except (OperationalError, InterfaceError) as error:
            if connection.in_atomic_block or time.monotonic() > deadline:
                raise
            log.warning("Database: %s", error)
            connection.close()
            time.sleep(DATABASE_PAUSE_S)


# --- what a row says then ----------------------------------------
def ended(kind: type[QueueJob], state: str) -> dict[str, Any]:
    return {
        "state": state,
        "lease_until": None,
        "finished_at": Now(),
        **kind.ENDED,
    }


def requeued(kind: type[QueueJob]) -> dict[str, Any]:
    return {
        "state": State.QUEUED,
        "worker": "",
        "lease_until": None,
        **kind.REQUEUED,
    }


# --- by the worker that holds the lease ----------------------------------------
def beat(job: QueueJob) -> Beat:
    """Renew the lease; reports a lost lease and a requested cancellation."""
    if not held(job).update(lease_until=Now() + LEASE):
        return Beat(alive=False)
    cancelled = held(job).filter(cancel_requested=True).exists()
    return Beat(alive=True, cancel_requested=cancelled)


def cancelled(job: QueueJob) -> bool:
    """End a cancelled job after its processes were killed."""
    fields = ended(type(job), State.CANCELLED)
    return retry(lambda: bool(held(job).update(**fields)))


def finished(job: LongJob, **fields: Any) -> bool:
    fields = {**ended(type(job), State.FINISHED), **fields}
    return retry(lambda: bool(held(job).update(**fields)))


def give_back(job: QueueJob) -> bool:
    """Requeue it, with the pieces that it has: a click waits, or the worker stops."""
    fields = requeued(type(job))
    return retry(lambda: bool(held(job).update(**fields)))


# --- by anybody ----------------------------------------
def cancel(job: QueueJob) -> bool:
    """Cancel a job that nobody holds, or request it of a worker; False if over."""
    row = row_of(job).filter(state__in=QueueJob.ACTIVE)
    if row.filter(lease_until=None).update(**ended(type(job), State.CANCELLED)):
        return True
    return bool(row.update(cancel_requested=True))


def end_lapsed(
    kind: type[QueueJob], lost: Q, as_lost: dict[str, Any], **again: Any
) -> dict[str, int]:
    """Requeue or end rows with a lapsed lease. Safe in any number of processes.

    `lost`: those that end, with `as_lost`; the others wait again, with `again`.
    """
    rows = kind._default_manager.filter(state=State.RUNNING, lease_until__lt=Now())
    # Read first: every worker asks every other second, and writing takes the lock.
    if not rows.exists():
        return dict.fromkeys(("cancelled", "lost", "requeued"), 0)
    cancelled = rows.filter(cancel_requested=True)
    as_lost = {**ended(kind, State.FINISHED), "reason": "lost", **as_lost}
    return {
        "cancelled": cancelled.update(**ended(kind, State.CANCELLED)),
        "lost": rows.filter(lost).update(**as_lost),
        "requeued": rows.update(**{**requeued(kind), **again}),
    }


# --- long jobs ----------------------------------------
def take(waiting: QuerySet[Long], worker: str) -> Any:
    """The key of the first of these rows, now held by this worker, or None."""
    if connection.features.has_select_for_update_skip_locked:
        waiting = waiting.select_for_update(skip_locked=True, of=("self",))
    with transaction.atomic():
        first = waiting.only("pk").first()
        taken = first and row_of(first).filter(
            state__in=QueueJob.ACTIVE, lease_until=None
        ).update(
            state=State.RUNNING,
            attempt=F("attempt") + 1,
            worker=worker,
            lease_until=Now() + LEASE,
            started_at=Coalesce("started_at", Now()),
        )
    return first.pk if first and taken else None


def takes_none(worker: Worker | None) -> bool:
    return bool(worker and (worker.paused or worker.draining))


def requeue_lapsed(kind: type[LongJob]) -> dict[str, int]:
    return end_lapsed(kind, LONG_IS_LOST, {}, lapses=F("lapses") + 1)


def too_many(
    kind: type[LongJob], requester: str, full: Refusal, own_full: Refusal
) -> RunRefused | None:
    """Why one more may not be queued now: of the site, or of this requester."""
    rows = kind._default_manager.filter(state__in=QueueJob.ACTIVE)
    waiting = list(rows.values_list("requester", flat=True))
    if len(waiting) >= ALL_JOBS:
        return full.refusal("busy", wait_s=RETRY_S)
    if requester and waiting.count(requester) >= OWN_JOBS:
        return own_full.refusal("throttled", wait_s=RETRY_S, count=OWN_JOBS)
    return None
