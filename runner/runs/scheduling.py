"""Which queued run is next, and the position and wait estimate of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import TypeVar

from django.conf import settings
from django.db.models import Avg, Count, F, Q, QuerySet

from kb.choices import DeviceClass
from portable import harness
from runner.models import CaptureRun, Device, Run, Worker
from runner.models.job import QueueJob
from runner.runs import fleet

# Clicks before re-verification before the matrix, then age.
Behind = TypeVar("Behind", bound=QueueJob)
ORDER = ("priority", "created_at", "pk")
ESTIMATE_RUNS = 20


@dataclass(frozen=True)
class QueuePosition:
    """Runs ahead of a queued one (0: it is next), and its estimated wait in seconds."""

    position: int | None = None
    eta_s: int | None = None


def claimable(
    queues: Collection[str], worker: Worker | None, gpus: Collection[Device]
) -> QuerySet[Run]:
    """Queued runs that a worker may claim now, the next one first.

    Runs submitted for another harness protocol are left to workers of that protocol.
    """
    rows = Run.objects.filter(
        fleet.in_queues(queues),
        fleet.fits(gpus),
        state=Run.State.QUEUED,
        protocol=harness.PROTOCOL,
    )
    rows = rows.exclude(requester__in=requesters_at_their_cap(Run))
    if worker and is_last_slot_for_clicks(worker):
        rows = rows.exclude(priority=Run.Priority.MATRIX)
    return rows.order_by(*ORDER)


def requesters_at_their_cap(*kinds: type[QueueJob]) -> list[str]:
    """Requesters with RUNNING_PER_REQUESTER runs executing; their others wait."""
    running: Counter[str] = Counter()
    for kind in kinds:
        rows = kind._default_manager.filter(state=kind.State.RUNNING).order_by()
        running.update(rows.exclude(requester="").values_list("requester", flat=True))
    limit = settings.RUNNING_PER_REQUESTER
    return [requester for requester, count in running.items() if count >= limit]


def is_last_slot_for_clicks(worker: Worker) -> bool:
    """Whether matrix and captures fill all slots but one; that is left to clicks."""
    if worker.slots < 2:
        return False
    here = {"state": Run.State.RUNNING, "worker": worker.pk}
    background = Run.objects.filter(**here, priority=Run.Priority.MATRIX).count()
    background += CaptureRun.objects.filter(**here).count()
    return background >= worker.slots - 1


def is_click_waiting(queues: Collection[str], worker: Worker | None = None) -> bool:
    """Whether a run that is no fill of the matrix could be claimed here now."""
    rows = claimable(queues, worker, [])
    return rows.exclude(priority=Run.Priority.MATRIX).exists()


def waiting_behind(rows: QuerySet[Behind], queues: Collection[str]) -> QuerySet[Behind]:
    """Of a kind of job that clicks go before, those of these queues, oldest first."""
    waiting = rows.filter(
        fleet.in_queues(queues), state=QueueJob.State.QUEUED, protocol=harness.PROTOCOL
    )
    return waiting.order_by("created_at", "pk")


def next_waiting(queues: Sequence[str], worker: Worker | None, count: int) -> list[str]:
    """The queues of the next `count` runs that this worker could claim."""
    if not queues or count < 1:
        return []
    gpus = fleet.free_gpus(worker) if worker and has_gpu_queue(queues) else []
    return [run.queue for run in claimable(queues, worker, gpus)[:count]]


def has_gpu_queue(queues: Collection[str]) -> bool:
    return any(queue.endswith(f".{DeviceClass.CUDA}") for queue in queues)


# --- position and estimate ----------------------------------------
def place_in_queue(run: Run) -> QueuePosition:
    """The position of a queued run; an empty one for a run in any other state."""
    if run.state != Run.State.QUEUED:
        return QueuePosition()
    earlier = Q(priority__lt=run.priority) | Q(
        priority=run.priority, created_at__lt=run.created_at
    )
    return place_behind(earlier, run.queue, list(fleet.online_workers()))


def place_of_a_click(queue: str, online: Iterable[Worker]) -> QueuePosition:
    """The position that a run started by a click now would get."""
    return place_behind(Q(priority=Run.Priority.CLICK), queue, online)


def place_behind(earlier: Q, queue: str, online: Iterable[Worker]) -> QueuePosition:
    """The position behind the `earlier` runs of all queues that these workers serve."""
    workers = [row for row in online if queue in row.queues and row.takes_runs]
    queues = fleet.served_queues(workers) or {queue}
    counted = (
        Run.objects.active()
        .filter(fleet.in_queues(queues))
        .order_by()
        .aggregate(
            ahead=Count("pk", filter=earlier & Q(state=Run.State.QUEUED)),
            running=Count("pk", filter=Q(state=Run.State.RUNNING)),
        )
    )
    ahead, running = counted["ahead"], counted["running"]
    slots = sum(worker.slots for worker in workers)
    if not slots or not (ahead or running):
        return QueuePosition(ahead)
    mean_s = typical_seconds(Run.objects.filter(fleet.in_queues([queue])))
    if mean_s is None:
        return QueuePosition(ahead)
    # What runs now is half done on average.
    return QueuePosition(ahead, ceil(mean_s * (ahead + running / 2) / slots))


def typical_seconds(rows: QuerySet[Run]) -> float | None:
    """Mean duration of the newest finished runs that gave evidence."""
    mean: timedelta | None = (
        rows.filter(state=Run.State.FINISHED, evidence__isnull=False)
        .order_by("-finished_at")[:ESTIMATE_RUNS]
        .aggregate(mean=Avg(F("finished_at") - F("started_at")))["mean"]
    )
    return mean.total_seconds() if mean is not None else None
