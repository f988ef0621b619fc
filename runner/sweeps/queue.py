"""The queue of sweeps: their rows, changed by conditional UPDATEs only, as with runs.

A worker takes a sweep while no click waits, and gives it back when one comes; its cells
stay. Every write of a cell is filtered by `attempt` and writes the whole list, so that
a killed worker loses the cell at hand and nobody writes one twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from kb.choices import DeviceClass
from kb.models import Repro
from runner import harness
from runner.evidence.store import SITE
from runner.models import Build, Run, Sweep, Worker
from runner.runs import fleet, refusals, scheduling
from runner.runs.admission import FleetSnapshot
from runner.runs.ledger import LEASE, retry
from runner.runs.refusals import RunRefused
from runner.sweeps import exchange
from runner.sweeps.axes import Axis, checked
from runner.transport import publish

# Unfinished sweeps of one requester, and of the site.
OWN_SWEEPS = 2
ALL_SWEEPS = 20
# Lapsed leases without one more cell, after which a sweep ends: it kills its workers.
MOST_LAPSES = 3
RETRY_S = 30


def submit(
    repro: Repro, build: Build, axes: Mapping[str, Axis], requester: str = ""
) -> Sweep:
    """Queue a sweep, or return the active one of the same cells.

    Raises ParameterError and TooMany for axes that the repro does not allow, RunRefused
    where nothing here could execute it, or too many sweeps wait.
    """
    axes = checked(harness.parse_header(repro.source), axes)
    key: dict[str, Any] = {
        "repro_digest": repro.digest,
        "build": build,
        "device": repro.device,
        "protocol": harness.PROTOCOL,
    }
    for row in Sweep.objects.active().filter(**key):
        if row.ordered_axes == axes and row.names == list(axes):
            return row
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
    transaction.on_commit(partial(publish, sweep.queue), robust=True)
    return sweep


def refusal(repro: Repro, build: Build, requester: str) -> RunRefused | None:
    if repro.device != DeviceClass.CPU:
        return refusals.SWEEP_DEVICE.refusal("device")
    if refused := FleetSnapshot().refusal(repro, build, repro.device):
        return refused
    waiting = list(Sweep.objects.active().values_list("requester", flat=True))
    if len(waiting) >= ALL_SWEEPS:
        return refusals.SWEEPS_FULL.refusal("busy", wait_s=RETRY_S)
    if requester and waiting.count(requester) >= OWN_SWEEPS:
        return refusals.OWN_SWEEPS_FULL.refusal(
            "throttled", wait_s=RETRY_S, count=OWN_SWEEPS
        )
    return None


def held(sweep: Sweep) -> QuerySet[Sweep]:
    """The sweep's row, if this attempt still holds its lease."""
    return Sweep.objects.filter(
        pk=sweep.pk, attempt=sweep.attempt, state=Run.State.RUNNING
    )


# --- by the worker that holds the lease ----------------------------------------
def claim(queues: Sequence[str], worker: str) -> Sweep | None:
    """The oldest sweep of these queues, or None; none while a click waits for them."""
    row = Worker.objects.filter(pk=worker).first()
    if not queues or (row and (row.paused or row.draining)):
        return None
    waiting = waiting_in(queues)
    if not waiting.exists() or is_click_waiting(queues, row):
        return None
    with transaction.atomic():
        if connection.features.has_select_for_update_skip_locked:
            waiting = waiting.select_for_update(skip_locked=True)
        first = waiting.only("pk").first()
        taken = first and Sweep.objects.filter(
            pk=first.pk, state=Run.State.QUEUED
        ).update(
            state=Run.State.RUNNING,
            attempt=F("attempt") + 1,
            worker=worker,
            lease_until=Now() + LEASE,
            started_at=Now(),
        )
    if not (first and taken):
        return None
    rows = Sweep.objects.select_related("record", "build")
    return retry(lambda: rows.get(pk=first.pk), LEASE / 2)


def waiting_in(queues: Sequence[str]) -> QuerySet[Sweep]:
    rows = Sweep.objects.filter(
        fleet.in_queues(queues), state=Run.State.QUEUED, protocol=harness.PROTOCOL
    )
    return rows.order_by("created_at", "pk")


def is_click_waiting(queues: Sequence[str], worker: Worker | None = None) -> bool:
    """Whether a run that is no fill of the matrix could be claimed here now."""
    rows = scheduling.claimable(queues, worker, [])
    return rows.exclude(priority=Run.Priority.MATRIX).exists()


def beat(sweep: Sweep) -> tuple[bool, bool]:
    """Renew the lease; whether it is still held, and whether somebody cancelled."""
    if not held(sweep).update(lease_until=Now() + LEASE):
        return False, False
    return True, held(sweep).filter(cancel_requested=True).exists()


def keep(sweep: Sweep, cell: dict[str, Any]) -> bool:
    """Write one more cell; False, with nothing written, when the lease was lost."""
    cells = [*sweep.cells, cell]
    kept = retry(
        lambda: held(sweep).update(
            cells=cells, same=sweep.same, lapses=0, lease_until=Now() + LEASE
        )
    )
    if kept:
        sweep.cells = cells
    return bool(kept)


def finish(sweep: Sweep, reason: str = "") -> bool:
    """End the sweep. With all of its cells it is evidence; else `reason` says why."""
    digest = "" if reason else exchange.body_of(sweep)["digest"]
    ended = {"digest": digest, "reason": reason[:200], **FINISHED}
    return retry(lambda: bool(held(sweep).update(**ended)))


def cancelled(sweep: Sweep) -> bool:
    return retry(lambda: bool(held(sweep).update(**CANCELLED)))


def give_back(sweep: Sweep) -> bool:
    """Requeue it with the cells that it has: a click waits, or the worker stops."""
    return retry(lambda: bool(held(sweep).update(**REQUEUED)))


FINISHED: dict[str, Any] = {
    "state": Run.State.FINISHED,
    "lease_until": None,
    "finished_at": Now(),
}
CANCELLED: dict[str, Any] = FINISHED | {"state": Run.State.CANCELLED}
REQUEUED: dict[str, Any] = {
    "state": Run.State.QUEUED,
    "worker": "",
    "lease_until": None,
}


# --- by anybody ----------------------------------------
def cancel(sweep: Sweep) -> bool:
    """Cancel a queued sweep, or request it of a running one; False if it is over."""
    row = Sweep.objects.filter(pk=sweep.pk)
    if row.filter(state=Run.State.QUEUED).update(**CANCELLED):
        return True
    return bool(row.filter(state=Run.State.RUNNING).update(cancel_requested=True))


def requeue_lapsed() -> dict[str, int]:
    """Requeue or end sweeps with a lapsed lease. Safe in any number of processes."""
    lapsed = Sweep.objects.filter(state=Run.State.RUNNING, lease_until__lt=Now())
    cancelled = lapsed.filter(cancel_requested=True).update(**CANCELLED)
    lost = lapsed.filter(lapses__gte=MOST_LAPSES - 1).update(reason="lost", **FINISHED)
    requeued = lapsed.update(lapses=F("lapses") + 1, **REQUEUED)
    return {
        "sweeps_cancelled": cancelled,
        "sweeps_lost": lost,
        "sweeps_requeued": requeued,
    }
