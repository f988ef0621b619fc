"""The queue of runs: the rows themselves, changed by conditional UPDATEs only.

queued → running → finished | cancelled, and back to queued when a worker is lost.
A worker holds a run by a lease that `claim` sets and `beat` renews; `finish` is
fenced by the attempt, so a worker that lost its lease can write nothing. Times
come from the database's clock.

Runs come in by runner.runs.submission; runner.runs.waiting says which one is next.
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
from runner.runs import fleet, waiting

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
    """Seconds after which an attempt has hung: every check has its own limit.

    A net for the case that whoever enforces those limits hangs itself.
    """
    header, checks = run.repro.header, run.repro.checks
    limit = float(header.get("timeout_s") or 60)
    return limit * (len(checks) + run.trials) + DEADLINE_SLACK_S


def held(run: Run) -> QuerySet[Run]:
    """The run's row while this attempt still holds it."""
    return Run.objects.filter(pk=run.pk, attempt=run.attempt, state=Run.State.RUNNING)


# --- one attempt, by the worker that holds it ----------------------------------------
def claim(
    queues: Sequence[str], worker: str, gpus: Collection[str] | None = None
) -> Run | None:
    """Take the next run that this worker may execute, with a lease; None if none.

    A run on GPUs gets those it will use: `gpu` holds their UUIDs, joined by commas.
    They are chosen among `gpus`, or among all that the worker's host has.
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
    # It is ours by now: where it cannot be read, nobody would execute it. What is read
    # after the lease may be another attempt.
    rows = Run.objects.select_related("repro", "build")
    return insist(lambda: rows.get(pk=pk), LEASE / 2)


def take_next(
    queues: Sequence[str],
    worker: str,
    row: Worker | None,
    among: Collection[str] | None,
) -> Any:
    free: list[Device] = []
    if row and waiting.has_gpu_queue(queues):
        free = fleet.free_gpus(row, among, lock=True)
    rows = waiting.claimable(queues, row, free)
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
    """Renew the lease, and learn whether somebody cancelled the run."""
    if not held(run).update(lease_until=Now() + LEASE):
        return Beat(alive=False)
    cancelled = held(run).filter(cancel_requested=True).exists()
    return Beat(alive=True, cancel_requested=cancelled)


def set_phase(run: Run, phase: str) -> bool:
    return bool(held(run).update(phase=phase[:80]))


def finish(run: Run, result: dict[str, Any] | str) -> bool:
    """End the run with its evidence, or with the reason of an error that left none.

    Verdict, evidence and findings appear together. False when the lease was lost:
    then nothing was written. Raises EvidenceRefused, the run being held still.
    """
    return insist(partial(finish_once, run, result))


def insist(ask: Callable[[], Answer], at_most: timedelta = LEASE) -> Answer:
    """Ask also where the database is away for a moment, as long as a lease lasts.

    A verdict may have taken minutes of a GPU. After an answer that was lost on the
    way, the fence makes the second try write nothing.
    """
    deadline = time.monotonic() + at_most.total_seconds()
    while True:
        try:
            return ask()
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
        # First, so that two attempts cannot both go on to write evidence.
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
    """End a run whose processes were killed because somebody cancelled it."""
    return insist(lambda: bool(held(run).update(**CANCELLED)))


def give_back(run: Run) -> bool:
    """Queue a run again that its worker cannot end, because it is told to stop."""
    return insist(lambda: bool(held(run).update(**REQUEUED)))


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
    """Cancel a queued run now, ask the worker of a running one. False if it is over."""
    row = Run.objects.filter(pk=run.pk)
    if row.filter(state=Run.State.QUEUED).update(**CANCELLED):
        return True
    return bool(row.filter(state=Run.State.RUNNING).update(cancel_requested=True))


def sweep() -> dict[str, int]:
    """Take up what lost workers left behind. Any number of processes may do this."""
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
    """Queued runs whose build has no interpreter any more would wait for ever."""
    ready = Installation.objects.filter(
        build=OuterRef("build"), state=Installation.State.READY
    )
    served = fleet.served_queues(fleet.online_workers())
    orphans = Run.objects.filter(~Exists(ready), state=Run.State.QUEUED)
    if served:
        orphans = orphans.exclude(fleet.in_queues(served))
    return orphans.update(
        state=Run.State.FINISHED,
        verdict=Verdict.ERROR,
        reason="build_missing",
        finished_at=Now(),
    )
