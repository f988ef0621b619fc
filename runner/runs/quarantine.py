"""The GPUs of this host as the site knows them: offered, held, quarantined."""

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
from runner.gpus.drive import Rig, ignore
from runner.gpus.nvml import NvmlError
from runner.gpus.telemetry import Problem
from runner.models import Device, Installation, Run

log = logging.getLogger(__name__)

INVENTORY_KEPT_S = 30


def locks() -> Path:
    return Path(settings.DATA_DIR) / "locks"


@lru_cache(maxsize=4)
def source(answers: str) -> nvml.Nvml:
    return nvml.open_nvml(answers)


def rig(
    chosen: str = "",
    say: Callable[[str], None] = ignore,
    on_problem: Callable[[Problem], None] | None = None,
) -> Rig:
    """This host's GPUs for one run; `chosen`: what its claim assigned, as Run.gpu.

    A GPU that the run leaves unwell is quarantined, unless `on_problem` does better.
    """
    return Rig(
        locks=locks(),
        nvml=source(settings.NVML_ANSWERS),
        chosen=tuple(filter(None, chosen.split(","))),
        avoided=withdrawn,
        say=say,
        on_problem=on_problem or quarantine,
    )


def withdrawn() -> frozenset[str]:
    """UUIDs that an operator or a run took out of use; none without a database."""
    rows = Device.objects.filter(host=registry.host_name())
    try:
        return frozenset(
            rows.exclude(state=Device.State.READY).values_list("uuid", flat=True)
        )
    except (OperationalError, ProgrammingError):
        return frozenset()


def offered(installations: Iterable[Installation]) -> list[dict[str, Any]]:
    """GPUs that runs may have: NVML's, or where it says nothing those torch saw."""
    try:
        return list(_inventory(settings.NVML_ANSWERS, _period()))
    except NvmlError:
        seen = [row.facts.get("devices") or [] for row in installations]
        most = max(seen, key=len, default=[])
        names = devices.proc_uuids()
        if len(names) != len(most):
            names = [f"{lock.BY_INDEX}{index}" for index in range(len(most))]
        return [
            {**item, "uuid": item.get("uuid") or name}
            for item, name in zip(most, names, strict=True)
        ]


def _period() -> int:
    return int(time.monotonic() // INVENTORY_KEPT_S)


@lru_cache(maxsize=4)
def _inventory(answers: str, period: int) -> tuple[dict[str, Any], ...]:
    return tuple(devices.inventory(source(answers)))


def forget() -> None:
    """Ask anew what there is."""
    _inventory.cache_clear()
    source.cache_clear()


def quarantine(problem: Problem, run: Run | None = None) -> None:
    """Withdraw a GPU of this host until an operator lifts it."""
    log.error("GPU %s: %s: %s", problem.uuid, problem.reason, problem.text)
    told = f"{problem.reason}: {problem.text}"
    if run:
        told += f" (run {run.pk})"
    fields = {"state": Device.State.QUARANTINED, "reason": told}
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
    """Give GPUs back to the runs, whatever withdrew them."""
    return rows.exclude(state=Device.State.READY).update(
        state=Device.State.READY, reason=""
    )


def pause(rows: QuerySet[Device]) -> int:
    """Take GPUs that are in order out of use; the run that has one ends normally."""
    return rows.filter(state=Device.State.READY).update(state=Device.State.PAUSED)
