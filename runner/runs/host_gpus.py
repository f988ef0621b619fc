"""The GPUs of this host: which runs may have, which are paused or quarantined."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import OperationalError, ProgrammingError
from django.db.models import QuerySet
from django.utils import timezone

from runner.builds import registry
from runner.gpus import devices, lock, nvml
from runner.gpus.gpu_run import HostGpus, ignore
from runner.gpus.nvml import GpuError, Nvidia
from runner.gpus.telemetry import Problem
from runner.models import Device, Installation, Run

log = logging.getLogger(__name__)

INVENTORY_KEPT_S = 30


def locks() -> Path:
    return Path(settings.DATA_DIR) / "locks"


@lru_cache(maxsize=1)
def nvidia() -> Nvidia:
    return nvml.Nvidia()


def for_run(
    chosen: str = "",
    say: Callable[[str], None] = ignore,
    on_problem: Callable[[Problem], None] | None = None,
) -> HostGpus:
    """This host's GPUs for one run. `chosen`: the UUIDs its claim assigned (Run.gpu).

    `on_problem` defaults to quarantining a GPU that the run leaves unhealthy.
    """
    return HostGpus(
        locks=locks(),
        nvidia=nvidia(),
        chosen=tuple(filter(None, chosen.split(","))),
        avoided=withdrawn,
        say=say,
        on_problem=on_problem or quarantine,
    )


def withdrawn() -> frozenset[str]:
    """UUIDs of paused and quarantined GPUs; empty where there is no database yet."""
    rows = Device.objects.filter(host=registry.host_name())
    try:
        return frozenset(
            rows.exclude(state=Device.State.READY).values_list("uuid", flat=True)
        )
    except (OperationalError, ProgrammingError):
        return frozenset()


def offered(installations: Iterable[Installation]) -> list[dict[str, Any]]:
    """GPUs that runs may have: from its driver, else those that a build's probe saw."""
    try:
        return list(_inventory(int(time.monotonic() // INVENTORY_KEPT_S)))
    except GpuError:
        probed = [row.facts.get("devices") or [] for row in installations]
        torch_gpus = max(probed, key=len, default=[])
        names = nvml.kernel_uuids()
        if len(names) != len(torch_gpus):
            names = [f"{lock.BY_INDEX}{index}" for index in range(len(torch_gpus))]
        return [
            {**item, "uuid": item.get("uuid") or name}
            for item, name in zip(torch_gpus, names, strict=True)
        ]


@lru_cache(maxsize=1)
def _inventory(period: int) -> tuple[dict[str, Any], ...]:
    return tuple(devices.inventory(nvidia()))


def clear_cache() -> None:
    """Drop the cached inventory and the connection to the driver."""
    _inventory.cache_clear()
    nvidia.cache_clear()


def quarantine(problem: Problem, run: Run | None = None) -> None:
    """Withdraw a GPU of this host until an operator lifts it."""
    log.error("GPU %s: %s: %s", problem.uuid, problem.reason, problem.text)
    reason = f"{problem.reason}: {problem.text}"
    if run:
        reason += f" (run {run.pk})"
    fields = {"state": Device.State.QUARANTINED, "reason": reason}
    try:
        Device.objects.update_or_create(
            host=registry.host_name(),
            uuid=problem.uuid,
            defaults=fields,
            create_defaults={**fields, "last_seen": timezone.now()},
        )
    except (OperationalError, ProgrammingError) as error:
        log.error("GPU %s could not be quarantined: %s", problem.uuid, error)


def lift(rows: QuerySet[Device]) -> int:
    """Lift pause and quarantine; returns how many GPUs changed."""
    return rows.exclude(state=Device.State.READY).update(
        state=Device.State.READY, reason=""
    )


def pause(rows: QuerySet[Device]) -> int:
    """Pause GPUs that are ready; a run that holds one ends normally."""
    return rows.filter(state=Device.State.READY).update(state=Device.State.PAUSED)
