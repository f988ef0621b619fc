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
from functools import partial, update_wrapper
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from kb.problems import is_outage
from runner.models.job import QueueJob
from runner.runs.retries import LEASE
from runner.transport import publish

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")
Kind = TypeVar("Kind", bound=QueueJob)

DATABASE_PAUSE_S = 0.5
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
            over = connection.in_atomic_block or time.monotonic() > deadline
            if over or not is_outage(error):
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


def finished(job: QueueJob, **fields: Any) -> bool:
    fields = {**ended(type(job), State.FINISHED), **fields}
    return retry(lambda: bool(held(job).update(**fields)))


def give_back(job: QueueJob) -> bool:
    """Requeue it, with the pieces that it has; one that was cancelled ends.

    Its processes were killed, a click waits, or the worker stops.
    """
    return retry(partial(give_back_once, job))


def give_back_once(job: QueueJob) -> bool:
    with transaction.atomic():
        row = held(job).select_for_update().first()
        if row is None:
            return False
        kind = type(job)
        again = not row.cancel_requested
        fields = requeued(kind) if again else ended(kind, State.CANCELLED)
        return bool(row_of(job).update(**fields))


# --- by anybody ----------------------------------------
def wake(job: QueueJob) -> None:
    """Have a worker look for it, once its row is there to be seen."""
    # Django names what failed by its __qualname__, which a bare `partial` lacks.
    wake_up = update_wrapper(partial(publish, job.queue), publish)
    transaction.on_commit(wake_up, robust=True)


def cancel(job: QueueJob) -> bool:
    """Cancel a job that nobody holds, or request it of a worker; False if over."""
    row = row_of(job).filter(state__in=QueueJob.ACTIVE)
    # Requested first: whoever gives it back in between ends it.
    if not row.update(cancel_requested=True):
        return False
    row.filter(lease_until=None).update(**ended(type(job), State.CANCELLED))
    return True


def reap(
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
        "requeued": rows.exclude(cancel_requested=True).update(
            **{**requeued(kind), **again}
        ),
    }


# --- by a worker that looks for one ----------------------------------------
def take(
    waiting: QuerySet[Kind],
    worker: str,
    also: Callable[[Kind], dict[str, Any]] = lambda job: {},
) -> Any:
    """The key of the first of these rows, now held by this worker, or None.

    `also`: what else is written of it then.
    """
    if connection.features.has_select_for_update_skip_locked:
        waiting = waiting.select_for_update(skip_locked=True, of=("self",))
    with transaction.atomic():
        first = waiting.first()
        taken = first and row_of(first).filter(state=State.QUEUED).update(
            state=State.RUNNING,
            attempt=F("attempt") + 1,
            worker=worker,
            lease_until=Now() + LEASE,
            **{"started_at": Now(), **also(first)},
        )
    return first.pk if first and taken else None


def loaded(rows: QuerySet[Kind], pk: Any) -> Kind | None:
    """What was taken, or None where nothing was.

    Retried because the lease is taken, so that nobody else would execute it; for less
    than a lease, after which the row may belong to another attempt.
    """
    return retry(lambda: rows.get(pk=pk), LEASE / 2) if pk else None
