"""The queue of runs: the rows themselves, changed by conditional UPDATEs only.

queued → running → finished | cancelled, and back to queued when a worker is lost.
A worker holds a run by a lease that `claim` sets and `beat` renews; `finish` is
fenced by the attempt, so a worker that lost its lease can write nothing. Times
come from the database's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial, reduce
from operator import or_
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Avg, Exists, F, OuterRef, Q, QuerySet
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now

from kb.choices import DeviceClass, Verdict
from kb.models import Repro
from runner import evidence as evidence_store
from runner import harness
from runner.models import Build, Installation, Run, Worker
from runner.transport import publish

LEASE = timedelta(seconds=15)
BEAT_SECONDS = 2.0
MAX_ATTEMPTS = 3
# A worker writes its row every few seconds (runner.worker).
WORKER_STALE = timedelta(seconds=30)
MAX_QUEUED = 500
MAX_QUEUED_PER_REQUESTER = 20
NO_FRESH_RESULT = (Verdict.ERROR, Verdict.INCONCLUSIVE)


class RunRefused(Exception):
    """Nothing can execute the run; `detail_*` say what would help."""

    def __init__(self, code: str, detail_en: str, detail_zh: str) -> None:
        super().__init__(detail_en)
        self.code = code
        self.detail_en = detail_en
        self.detail_zh = detail_zh


@dataclass(frozen=True)
class Submitted:
    run: Run
    joined: bool = False
    cached: bool = False


@dataclass(frozen=True)
class Beat:
    """`alive` is False once the lease was lost: stop and write nothing."""

    alive: bool
    cancel_requested: bool = False


@dataclass(frozen=True)
class Place:
    """How many runs are ahead of a queued one (0 = next), and about how long."""

    position: int | None = None
    eta_s: int | None = None


def ago(span: timedelta) -> CombinedExpression:
    return Now() - span


def held(run: Run) -> QuerySet[Run]:
    """The run's row while this attempt still holds it."""
    return Run.objects.filter(pk=run.pk, attempt=run.attempt, state=Run.State.RUNNING)


# --- submit ----------------------------------------
def submit(
    repro: Repro,
    build: Build,
    device: str,
    trials: int,
    requester: str = "",
    again: bool = False,
    priority: int = Run.Priority.CLICK,
) -> Submitted:
    """Queue a run, join the one that is active, or return a fresh result.

    Raises RunRefused when nothing here could ever execute it.
    """
    question: dict[str, Any] = {
        "repro_digest": repro.digest,
        "build": build,
        "device": device,
        "protocol": harness.PROTOCOL,
    }
    same = Run.objects.filter(**question)
    cached = None if again else fresh_result(same, trials)
    if cached:
        return Submitted(cached, cached=True)
    active = same.active().first()
    if active:
        return Submitted(active, joined=True)
    refuse_the_impossible(repro, build, device)
    refuse_a_flood(requester)
    run = Run(
        **question, repro=repro, trials=trials, priority=priority, requester=requester
    )
    if not insert(run):
        # Somebody submitted the same in between; theirs may even be over.
        return Submitted(same.latest("created_at"), joined=True)
    transaction.on_commit(partial(publish, run.queue), robust=True)
    return Submitted(run)


def insert(run: Run) -> bool:
    """False where an active run of the same question exists."""
    try:
        with transaction.atomic():
            run.save(force_insert=True)
    except IntegrityError:
        return False
    return True


def fresh_result(same: QuerySet[Run], trials: int) -> Run | None:
    """The newest verdict of the last FRESH_HOURS, from at least as many trials."""
    return (
        same.filter(
            state=Run.State.FINISHED,
            trials__gte=trials,
            finished_at__gte=ago(timedelta(hours=settings.FRESH_HOURS)),
        )
        .exclude(verdict__in=NO_FRESH_RESULT)
        .order_by("-finished_at")
        .first()
    )


def refuse_the_impossible(repro: Repro, build: Build, device: str) -> None:
    if device == DeviceClass.CUDA and repro.device == DeviceClass.CPU:
        raise RunRefused(
            "device",
            "This repro runs on the CPU. Choose the device cpu.",
            "该复现脚本在 CPU 上运行，请选择设备 cpu。",
        )
    queue = f"{build.slug}.{device}"
    if any(queue in worker.queues for worker in online_workers()):
        return
    if device == DeviceClass.CUDA:
        raise RunRefused(
            "no_device",
            f"No worker with a GPU serves torch {build.raw}. Run the repro on your own "
            "GPU with the single-file script, or start a worker on a machine with one.",
            f"没有带 GPU 的执行节点提供 torch {build.raw}。请用单文件脚本在自己的 GPU "
            "上运行，或在有 GPU 的机器上启动执行节点。",
        )
    # The worker of an installed build may be starting just now.
    ready = Installation.State.READY
    if not build.installations.filter(state=ready).exists():
        raise RunRefused(
            "no_installation",
            f"torch {build.raw} is not installed on any machine of this site. "
            f"Add it with: manage.py builds add {build.raw}",
            f"本站没有机器装有 torch {build.raw}。"
            f"可以这样添加：manage.py builds add {build.raw}",
        )


def refuse_a_flood(requester: str) -> None:
    queued = Run.objects.filter(state=Run.State.QUEUED)
    own = queued.filter(requester=requester).count() if requester else 0
    if own >= MAX_QUEUED_PER_REQUESTER or queued.count() >= MAX_QUEUED:
        raise RunRefused(
            "busy",
            "Too many runs are waiting. Try again when some have finished.",
            "等待中的运行过多，请在部分运行结束后再试。",
        )


# --- one attempt, by the worker that holds it ----------------------------------------
def claim(queues: Sequence[str], worker: str) -> Run | None:
    """Take the next queued run of these queues, with a lease; None if there is none."""
    if not queues:
        return None
    with transaction.atomic():
        waiting = Run.objects.filter(in_queues(queues), state=Run.State.QUEUED)
        if connection.features.has_select_for_update_skip_locked:
            waiting = waiting.select_for_update(skip_locked=True)
        pk = (
            waiting.order_by("priority", "created_at", "pk")
            .values_list("pk", flat=True)
            .first()
        )
        if pk is None:
            return None
        taken = Run.objects.filter(pk=pk, state=Run.State.QUEUED).update(
            state=Run.State.RUNNING,
            phase="",
            attempt=F("attempt") + 1,
            worker=worker,
            lease_until=Now() + LEASE,
            started_at=Now(),
        )
    if not taken:
        return None
    return Run.objects.select_related("repro", "build").get(pk=pk)


def in_queues(queues: Iterable[str]) -> Q:
    pairs = [queue.rpartition(".") for queue in queues]
    return reduce(or_, (Q(build=slug, device=device) for slug, _, device in pairs))


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
    body = None if isinstance(result, str) else result
    verdict = body["verdict"] if body else Verdict.ERROR
    reason = body["reason"] if body else result
    with transaction.atomic():
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
    return bool(held(run).update(**CANCELLED))


def give_back(run: Run) -> bool:
    """Queue a run again that its worker cannot end, because it is told to stop."""
    return bool(held(run).update(**REQUEUED))


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
    return {
        "cancelled": cancelled,
        "lost": lost,
        "requeued": requeued,
        "build_missing": end_runs_of_removed_builds(),
    }


def end_runs_of_removed_builds() -> int:
    """Queued runs whose build has no interpreter any more would wait for ever."""
    ready = Installation.objects.filter(
        build=OuterRef("build"), state=Installation.State.READY
    )
    served = {queue for worker in online_workers() for queue in worker.queues}
    orphans = Run.objects.filter(~Exists(ready), state=Run.State.QUEUED)
    if served:
        orphans = orphans.exclude(in_queues(served))
    return orphans.update(
        state=Run.State.FINISHED,
        verdict=Verdict.ERROR,
        reason="build_missing",
        finished_at=Now(),
    )


def next_waiting(queues: Sequence[str], count: int) -> list[str]:
    """The queues of the next `count` runs that wait in any of these."""
    if not queues or count < 1:
        return []
    rows = Run.objects.filter(in_queues(queues), state=Run.State.QUEUED)
    ordered = rows.order_by("priority", "created_at")
    return [run.queue for run in ordered[:count]]


def running_on(worker: str) -> int:
    return Run.objects.filter(state=Run.State.RUNNING, worker=worker).count()


def online_workers() -> QuerySet[Worker]:
    return Worker.objects.filter(last_seen__gte=ago(WORKER_STALE))


def place_in_queue(run: Run) -> Place:
    """Where a queued run stands; nothing for any other."""
    if run.state != Run.State.QUEUED:
        return Place()
    same = Run.objects.filter(build=run.build_id, device=run.device)
    earlier = Q(priority__lt=run.priority) | Q(
        priority=run.priority, created_at__lt=run.created_at
    )
    ahead = same.filter(earlier, state=Run.State.QUEUED).count()
    spent = (
        same.filter(state=Run.State.FINISHED, evidence__isnull=False)
        .order_by("-finished_at")[:20]
        .aggregate(mean=Avg(F("finished_at") - F("started_at")))["mean"]
    )
    busy = same.filter(state=Run.State.RUNNING).exists()
    eta = round(spent.total_seconds() * (ahead + busy)) if spent else None
    return Place(ahead, eta)
