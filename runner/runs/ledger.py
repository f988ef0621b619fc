"""The queue of runs: the rows themselves, changed by conditional UPDATEs only.

queued → running → finished | cancelled, and back to queued when a worker is lost.
`claim` sets a lease and `beat` renews it. The attempt number is the fencing token: a
worker that lost its lease can write nothing. Times come from the database's clock.

`runner.runs.submission` queues runs; `runner.runs.scheduling` orders them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from django.conf import settings
from django.db import (
    IntegrityError,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)
from django.db.models import Exists, F, OuterRef, QuerySet
from django.db.models.functions import Now

from kb.choices import Verdict
from runner.evidence import store as evidence_store
from runner.models import Chore, Device, Installation, Run, Worker
from runner.runs import fleet, scheduling

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")

LEASE = timedelta(seconds=settings.LEASE_SECONDS)
# Well within the lease, and often enough to hear of a cancellation in a second.
BEAT_SECONDS = min(1.0, settings.LEASE_SECONDS / 4)
MAX_ATTEMPTS = 3
DEADLINE_SLACK_S = 120.0
DATABASE_PAUSE_S = 0.5


@dataclass(frozen=True)
class Beat:
    """`alive` is False once the lease was lost: stop and write nothing."""

    alive: bool
    cancel_requested: bool = False


def deadline_s(run: Run) -> float:
    """Seconds after which an attempt counts as hung.

    Every check has its own limit; this one is for a worker that hangs itself.
    """
    header, checks = run.repro.header, run.repro.checks
    limit = float(header.get("timeout_s") or 60)
    in_variants = (len(checks) + run.trials) * len(header.get("variants") or {})
    return limit * (len(checks) + run.trials + in_variants) + DEADLINE_SLACK_S


def held(run: Run) -> QuerySet[Run]:
    """The run's row, if this attempt still holds its lease."""
    return Run.objects.filter(pk=run.pk, attempt=run.attempt, state=Run.State.RUNNING)


# --- by the worker that holds the lease ----------------------------------------
def claim(
    queues: Sequence[str], worker: str, gpus: Collection[str] | None = None
) -> Run | None:
    """Claim the next run that this worker may execute, or None.

    `run.gpu` becomes the UUIDs of its GPUs, joined by commas: chosen among `gpus`, or
    among all of the worker's host.
    """
    row = Worker.objects.filter(pk=worker).first()
    if not queues or (row and (row.paused or row.draining)):
        return None
    try:
        with transaction.atomic():
            pk = take_next(queues, worker, row, gpus)
    except IntegrityError:
        return None  # another claim got the GPU; the next wake-up tries again
    if pk is None:
        return None
    # Retried because the lease is taken, so that nobody else would execute the run; for
    # less than a lease, after which the row may belong to another attempt.
    rows = Run.objects.select_related("repro", "build")
    return retry(lambda: rows.get(pk=pk), LEASE / 2)


def take_next(
    queues: Sequence[str],
    worker: str,
    row: Worker | None,
    among: Collection[str] | None,
) -> Any:
    free: list[Device] = []
    if row and scheduling.has_gpu_queue(queues):
        free = fleet.free_gpus(row, among, lock=True)
    rows = scheduling.claimable(queues, row, free)
    if connection.features.has_select_for_update_skip_locked:
        rows = rows.select_for_update(skip_locked=True)
    run = rows.first()
    if run is None:
        return None
    taken = Run.objects.filter(pk=run.pk, state=Run.State.QUEUED).update(
        state=Run.State.RUNNING,
        phase="",
        attempt=F("attempt") + 1,
        worker=worker,
        gpu=",".join(gpu.uuid for gpu in fleet.gpus_for(run, free)),
        lease_until=Now() + LEASE,
        started_at=Now(),
    )
    return run.pk if taken else None


def beat(run: Run) -> Beat:
    """Renew the lease; reports a lost lease and a requested cancellation."""
    if not held(run).update(lease_until=Now() + LEASE):
        return Beat(alive=False)
    cancelled = held(run).filter(cancel_requested=True).exists()
    return Beat(alive=True, cancel_requested=cancelled)


def set_phase(run: Run, phase: str) -> bool:
    return bool(held(run).update(phase=phase[:80]))


def finish(run: Run, result: dict[str, Any] | str) -> bool:
    """Finish the run with its evidence, or with the reason of an error without any.

    Verdict, evidence and findings are written in one transaction. False, with nothing
    written, when the lease was lost. Raises EvidenceRefused; the lease is kept then.
    """
    return retry(partial(finish_once, run, result))


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


def finish_once(run: Run, result: dict[str, Any] | str) -> bool:
    body = None if isinstance(result, str) else result
    verdict = body["verdict"] if body else Verdict.ERROR
    reason = body["reason"] if body else result
    with transaction.atomic():
        # Before the evidence, so that only one attempt goes on to write it.
        ended = held(run).update(
            state=Run.State.FINISHED,
            phase="",
            verdict=verdict,
            reason=reason,
            hits=body["hits"] if body else None,
            evidence=body["digest"] if body else None,
            lease_until=None,
            finished_at=Now(),
        )
        if ended and body:
            evidence_store.add(body, origin=evidence_store.SITE)
    return bool(ended)


def cancelled(run: Run) -> bool:
    """End a cancelled run after its processes were killed."""
    return retry(lambda: bool(held(run).update(**CANCELLED)))


def give_back(run: Run) -> bool:
    """Requeue a run whose worker is stopping."""
    return retry(lambda: bool(held(run).update(**REQUEUED)))


CANCELLED: dict[str, Any] = {
    "state": Run.State.CANCELLED,
    "phase": "",
    "lease_until": None,
    "finished_at": Now(),
}
REQUEUED: dict[str, Any] = {
    "state": Run.State.QUEUED,
    "phase": "",
    "worker": "",
    "gpu": "",
    "lease_until": None,
}


# --- by anybody ----------------------------------------
def cancel(run: Run) -> bool:
    """Cancel a queued run, or request it of a running one; False if it is over."""
    row = Run.objects.filter(pk=run.pk)
    if row.filter(state=Run.State.QUEUED).update(**CANCELLED):
        return True
    return bool(row.filter(state=Run.State.RUNNING).update(cancel_requested=True))


def sweep() -> dict[str, int]:
    """Requeue or end runs whose lease has expired. Safe in any number of processes."""
    lapsed = Run.objects.filter(state=Run.State.RUNNING, lease_until__lt=Now())
    cancelled = lapsed.filter(cancel_requested=True).update(**CANCELLED)
    lost = lapsed.filter(attempt__gte=MAX_ATTEMPTS).update(
        state=Run.State.FINISHED,
        phase="",
        verdict=Verdict.ERROR,
        reason="lost",
        lease_until=None,
        finished_at=Now(),
    )
    requeued = lapsed.update(**REQUEUED)
    swept = {
        "cancelled": cancelled,
        "lost": lost,
        "requeued": requeued,
        "build_missing": end_runs_of_removed_builds(),
    }
    Chore.note(Chore.SWEEP, swept)
    return swept


def end_runs_of_removed_builds() -> int:
    """End queued runs that no installation and no online worker can serve any more.

    What is being installed may serve them soon; where that fails its row goes.
    """
    usable = (Installation.State.READY, Installation.State.INSTALLING)
    installed = Installation.objects.filter(build=OuterRef("build"), state__in=usable)
    served = fleet.served_queues(fleet.online_workers())
    orphans = Run.objects.filter(~Exists(installed), state=Run.State.QUEUED)
    if served:
        orphans = orphans.exclude(fleet.in_queues(served))
    return orphans.update(
        state=Run.State.FINISHED,
        verdict=Verdict.ERROR,
        reason="build_missing",
        finished_at=Now(),
    )
