"""The queue of runs: the rows themselves, changed by conditional UPDATEs only.

queued → running → finished | cancelled, and back to queued when a worker is lost.
`claim` sets a lease; `runner.runs.retries` says how often a lost run starts again, and
`runner.runs.jobs` has what holds for all rows of the queue.

`runner.runs.submission` queues runs; `runner.runs.scheduling` orders them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef

from kb.choices import Verdict
from runner.evidence import store as evidence_store
from runner.models import (
    CaptureRun,
    Chore,
    Device,
    Installation,
    Run,
    Sweep,
    Worker,
)
from runner.runs import fleet, jobs, scheduling
from runner.runs.jobs import held
from runner.runs.retries import IS_LOST


# --- by the worker that holds the lease ----------------------------------------
def claim(
    queues: Sequence[str], worker: str, gpus: Collection[str] | None = None
) -> Run | None:
    """Claim the next run that this worker may execute, or None.

    `run.gpu` becomes the UUIDs of its GPUs, joined by commas: chosen among `gpus`, or
    among all of the worker's host.
    """
    row = Worker.objects.filter(pk=worker).first()
    if not queues or (row and not row.takes_runs):
        return None
    try:
        with transaction.atomic():
            pk = take_next(queues, worker, row, gpus)
    except IntegrityError:
        return None  # another claim got the GPU; the next wake-up tries again
    return jobs.loaded(Run.objects.select_related("repro", "build"), pk)


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

    def also(run: Run) -> dict[str, Any]:
        gpus = fleet.gpus_for(run, free)
        return {"phase": "", "gpu": ",".join(gpu.uuid for gpu in gpus)}

    return jobs.take(rows, worker, also)


def set_phase(run: Run, phase: str) -> bool:
    return bool(held(run).update(phase=phase[:80]))


def finish(run: Run, result: dict[str, Any] | str) -> bool:
    """Finish the run with its evidence, or with the reason of an error without any.

    Verdict, evidence and findings are written in one transaction. False, with nothing
    written, when the lease was lost. Raises EvidenceRefused; the lease is kept then.
    """
    return jobs.retry(partial(finish_once, run, result))


def finish_once(run: Run, result: dict[str, Any] | str) -> bool:
    body = None if isinstance(result, str) else result
    verdict = body["verdict"] if body else Verdict.ERROR
    reason = body["reason"] if body else result
    with transaction.atomic():
        # Before the evidence, so that only one attempt goes on to write it.
        ended = held(run).update(
            **jobs.ended(Run, Run.State.FINISHED),
            verdict=verdict,
            reason=reason,
            hits=body["hits"] if body else None,
            evidence=body["digest"] if body else None,
        )
        if ended and body:
            evidence_store.add(body, origin=evidence_store.SITE)
    return bool(ended)


# --- by anybody ----------------------------------------
def reap() -> dict[str, int]:
    """Requeue or end runs whose lease has lapsed. Safe in any number of processes."""
    reaped = jobs.reap(Run, IS_LOST, {"verdict": Verdict.ERROR})
    reaped["build_missing"] = end_of_removed_builds(Run, verdict=Verdict.ERROR)
    Chore.note(Chore.REAP, reaped)
    return reaped


def end_of_removed_builds(
    kind: type[Run] | type[Sweep] | type[CaptureRun], **as_lost: Any
) -> int:
    """End queued ones that no installation and no online worker can serve any more.

    What is being installed may serve them soon; where that fails its row goes.
    """
    usable = (Installation.State.READY, Installation.State.INSTALLING)
    installed = Installation.objects.filter(build=OuterRef("build"), state__in=usable)
    served = fleet.served_queues(fleet.online_workers())
    queued = kind._default_manager.filter(state=Run.State.QUEUED)
    orphans = queued.filter(~Exists(installed))
    if served:
        orphans = orphans.exclude(fleet.in_queues(served))
    if not orphans.exists():
        return 0
    fields = jobs.ended(kind, Run.State.FINISHED)
    return orphans.update(**fields, reason="build_missing", **as_lost)
