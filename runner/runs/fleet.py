"""Workers and GPUs as their rows describe them: which are online, which are free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now

from kb.choices import DeviceClass
from runner.models import CaptureRun, Device, Run, Sweep, Worker

# A worker writes its row every few seconds (runner.worker.heartbeat).
WORKER_STALE = timedelta(seconds=30)


def ago(span: timedelta) -> CombinedExpression:
    """`span` before now, by the database's clock."""
    return Now() - span


def is_online() -> Q:
    """One that has stopped has no slots."""
    return Q(last_seen__gte=ago(WORKER_STALE), slots__gt=0)


def online_workers() -> QuerySet[Worker]:
    return Worker.objects.filter(is_online())


def served_queues(workers: Iterable[Worker]) -> set[str]:
    return {queue for worker in workers for queue in worker.queues}


def running() -> Counter[str]:
    """How many jobs of any kind each worker executes."""
    found: Counter[str] = Counter()
    for kind in (Run, Sweep, CaptureRun):
        rows = kind._default_manager.filter(state=kind.State.RUNNING).order_by()
        found.update(rows.values_list("worker", flat=True))
    return found


def in_queues(queues: Iterable[str]) -> Q:
    """Runs whose queue, `<build slug>.<device>`, is one of these."""
    pairs = [queue.rpartition(".") for queue in queues]
    nothing = Q(pk__in=[])
    return reduce(
        or_, (Q(build=slug, device=device) for slug, _, device in pairs), nothing
    )


# --- GPUs ----------------------------------------
def capability_number(text: str) -> int:
    """ "9.0" -> 900 and "12.1" -> 1201, which compare as versions do; "" -> 0."""
    major, _, minor = text.partition(".")
    if not (major.isdecimal() and (minor or "0").isdecimal()):
        return 0
    return int(major) * 100 + int(minor or 0)


def requirements(header: dict[str, Any]) -> dict[str, int]:
    """GPU requirements of a repro's header, as columns of a run."""
    return {
        "min_capability": capability_number(header.get("min_capability") or ""),
        "min_memory_mib": int((header.get("min_memory_gib") or 0) * 1024),
        "min_devices": header.get("min_devices") or 1,
    }


def healthy_gpus(hosts: Collection[str]) -> QuerySet[Device]:
    """GPUs of these hosts with a recent heartbeat, neither paused nor quarantined."""
    return Device.objects.filter(
        host__in=hosts, state=Device.State.READY, last_seen__gte=ago(WORKER_STALE)
    )


def gpus_in_use() -> set[str]:
    rows = Run.objects.filter(state=Run.State.RUNNING).exclude(gpu="")
    return {
        uuid for gpu in rows.values_list("gpu", flat=True) for uuid in gpu.split(",")
    }


def unnamed_gpus(worker: Worker) -> list[Device]:
    """At most one unsaved Device for the GPUs that torch sees but that have no UUID.

    Without a UUID they cannot be told apart, so the host runs one such run at a time.
    """
    return [
        Device(
            host=worker.host,
            name=item.get("name") or "",
            capability=item.get("capability") or "",
            memory_mib=item.get("memory_mib") or 0,
        )
        for item in worker.devices
        if not item.get("uuid")
    ][:1]


def free_gpus(
    worker: Worker, among: Collection[str] | None = None, *, lock: bool = False
) -> list[Device]:
    """Healthy GPUs of a worker's host that no run holds, least capable first.

    `among`: only these UUIDs. `lock`: lock the rows for the transaction, where the
    database can, so that two claims cannot take the same GPU.
    """
    if unnamed := unnamed_gpus(worker):
        hosts = Worker.objects.filter(host=worker.host).values("name")
        busy_here = Run.objects.filter(
            state=Run.State.RUNNING, device=DeviceClass.CUDA, worker__in=hosts
        )
        return [] if busy_here.exists() else unnamed
    rows = healthy_gpus([worker.host])
    if among is not None:
        rows = rows.filter(uuid__in=among)
    if lock and connection.features.has_select_for_update:
        rows = rows.select_for_update()
    healthy = list(rows.order_by("uuid"))
    # Read after taking the lock, so that GPUs of an earlier claim are visible.
    in_use = gpus_in_use() if healthy else set()
    return sorted(
        (row for row in healthy if row.uuid not in in_use),
        key=lambda row: (capability_number(row.capability), row.memory_mib),
    )


def at_least(gpu: Device, gpus: Iterable[Device]) -> list[Device]:
    """GPUs with at least the capability and memory of `gpu`, itself included."""
    lowest = capability_number(gpu.capability)
    return [
        row
        for row in gpus
        if capability_number(row.capability) >= lowest
        and row.memory_mib >= gpu.memory_mib
    ]


def fits(gpus: Collection[Device]) -> Q:
    """Filter for runs on the CPU and runs whose requirements these GPUs meet."""
    query = Q(device=DeviceClass.CPU)
    for gpu in gpus:
        query |= Q(
            device=DeviceClass.CUDA,
            min_capability__lte=capability_number(gpu.capability),
            min_memory_mib__lte=gpu.memory_mib,
            min_devices__lte=len(at_least(gpu, gpus)),
        )
    return query


def gpus_for(run: Run, free: Iterable[Device]) -> list[Device]:
    """The least capable free GPUs that meet the requirements; [] for a CPU run."""
    if run.device == DeviceClass.CPU:
        return []
    sufficient = [
        row
        for row in free
        if capability_number(row.capability) >= run.min_capability
        and row.memory_mib >= run.min_memory_mib
    ]
    return sufficient[: run.min_devices]
