"""The queue of sweeps: their rows, changed by conditional UPDATEs only, as with runs.

A worker takes a sweep while no click waits, and gives it back when one comes; its cells
stay. Every write of a cell is filtered by `attempt` and writes the whole list, so that
a killed worker loses the cell at hand and nobody writes one twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce, Now

from kb.choices import DeviceClass
from kb.models import Repro
from portable import harness
from runner.evidence.store import SITE
from runner.limits import ALL_JOBS, OWN_JOBS
from runner.models import Build, Sweep, Worker
from runner.runs import jobs, ledger, refusals, scheduling
from runner.runs.admission import FleetSnapshot
from runner.runs.refusals import RunRefused
from runner.runs.retries import LEASE, LONG_IS_LOST
from runner.sweeps import exchange
from runner.sweeps.axes import checked
from runner.sweeps.cells import Axis

# For refusals that end when a sweep does, not after a known time.
RETRY_S = 30
EVERYBODY = ""


def submit(
    repro: Repro, build: Build, axes: Mapping[str, Axis], requester: str = ""
) -> Sweep:
    """Queue a sweep, or return the active one of the same cells.

    Raises ParameterError and BadAxes for axes that the repro does not allow, RunRefused
    where nothing here could execute it, or too many sweeps wait.
    """
    axes = checked(harness.parse_header(repro.source), axes)
    key: dict[str, Any] = {
        "repro_digest": repro.digest,
        "build": build,
        "device": repro.device,
        "protocol": harness.PROTOCOL,
    }
    if found := joined(key, axes, requester):
        return found
    if refused := refusal(repro, build, requester):
        raise refused
    sweep = Sweep.objects.create(
        **key,
        record=repro.record,
        repro_name=repro.name,
        axes=axes,
        names=list(axes),
        trials=repro.header.get("trials", 1),
        requester=requester,
        origin=SITE,
    )
    jobs.wake(sweep)
    return sweep


def joined(
    key: Mapping[str, Any], axes: Mapping[str, Axis], requester: str
) -> Sweep | None:
    """The active sweep of the same cells; that of two is nobody's own to cancel."""
    active = Sweep.objects.filter(state__in=Sweep.ACTIVE, cancel_requested=False)
    with transaction.atomic():
        for row in active.filter(**key).select_for_update():
            if row.ordered_axes == axes and row.names == list(axes):
                if row.requester != requester:
                    row.requester = EVERYBODY
                    row.save(update_fields=["requester"])
                return row
    return None


def refusal(repro: Repro, build: Build, requester: str) -> RunRefused | None:
    if repro.device != DeviceClass.CPU:
        return refusals.SWEEP_DEVICE.refusal("device")
    if refused := FleetSnapshot().refusal(repro, build, repro.device):
        return refused
    rows = Sweep.objects.filter(state__in=Sweep.ACTIVE)
    waiting = list(rows.values_list("requester", flat=True))
    if len(waiting) >= ALL_JOBS:
        return refusals.SWEEPS_FULL.refusal("busy", wait_s=RETRY_S)
    if requester and waiting.count(requester) >= OWN_JOBS:
        own_full = refusals.OWN_SWEEPS_FULL
        return own_full.refusal("throttled", wait_s=RETRY_S, count=OWN_JOBS)
    return None


# --- by the worker that holds the lease ----------------------------------------
def claim(queues: Sequence[str], worker: str) -> Sweep | None:
    """The oldest sweep of these queues, or None; none while a click waits for them."""
    row = Worker.objects.filter(pk=worker).first()
    if not queues or (row and not row.takes_runs):
        return None
    waiting = waiting_in(queues)
    if not waiting.exists() or scheduling.is_click_waiting(queues, row):
        return None
    began = {"started_at": Coalesce("started_at", Now())}
    pk = jobs.take(waiting.only("pk"), worker, lambda _sweep: began)
    return jobs.loaded(Sweep.objects.select_related("record", "build"), pk)


def waiting_in(queues: Sequence[str]) -> QuerySet[Sweep]:
    return scheduling.waiting_behind(Sweep.objects.all(), queues)


def keep(sweep: Sweep, cell: dict[str, Any]) -> bool:
    """Write one more cell; False, with nothing written, when the lease was lost."""
    cells = [*sweep.cells, cell]
    kept = jobs.retry(
        lambda: jobs.held(sweep).update(
            cells=cells, same=sweep.same, lapses=0, lease_until=Now() + LEASE
        )
    )
    if kept:
        sweep.cells = cells
    return bool(kept)


def finish(sweep: Sweep, reason: str = "") -> bool:
    """End the sweep. With all of its cells it is evidence; else `reason` says why."""
    digest = "" if reason else exchange.body_of(sweep)["digest"]
    return jobs.finished(sweep, digest=digest, reason=reason[:200])


# --- by anybody ----------------------------------------
def reap() -> dict[str, int]:
    """Requeue or end sweeps whose lease has lapsed, or whose build nobody serves."""
    reaped = jobs.reap(Sweep, LONG_IS_LOST, {}, lapses=F("lapses") + 1)
    reaped["build_missing"] = ledger.end_of_removed_builds(Sweep)
    return reaped
