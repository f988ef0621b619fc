"""The queue of captures: one row for each build, which clicks go before.

Nobody joins one of somebody else, and none runs where a sandbox is weaker than tier B:
a capture is a stranger's program.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django.db.models import QuerySet

from kb.choices import DeviceClass
from kb.languages import Pair
from runner.models import Build, CaptureRun, Run, Worker
from runner.runs import jobs, ledger, refusals, scheduling
from runner.runs.admission import FleetSnapshot, by_preference, installed_builds
from runner.runs.refusals import RunRefused
from runner.runs.retries import IS_LOST
from runner.sandbox.tiers import reaches

WEAKEST = "B"
# In place of the slugs of builds.
ALL = "all"
ERROR = CaptureRun.Outcome.ERROR


def refusal(build: Build, known: FleetSnapshot | None = None) -> RunRefused | None:
    """Why no worker can run a capture on this build."""
    fleet_now = known or FleetSnapshot()
    if refused := fleet_now.unserved(build, DeviceClass.CPU):
        return refused
    serving = fleet_now.serving(build, DeviceClass.CPU)
    workers = [row for row in serving if not row.paused]
    if not workers or any(is_strong(row) for row in workers):
        return None
    return refusals.CAPTURE_TIER.refusal(
        "sandbox",
        raw=build.raw,
        tier=workers[0].tier,
        remedy=remedy_of(workers[0]),
    )


def able() -> list[Build]:
    """Builds that can run one, by preference; without any, all: a refusal says why."""
    builds, fleet_now = by_preference(), FleetSnapshot()
    return [row for row in builds if not refusal(row, fleet_now)] or builds


def chosen(slugs: Collection[str]) -> list[Build]:
    """The builds of these slugs; ALL that are able, and without any slug the first.

    [] where nothing is installed.
    """
    if ALL in slugs:
        return able()
    named = [row for row in installed_builds() if row.slug in slugs]
    return named or able()[:1]


def is_strong(worker: Worker) -> bool:
    return bool(worker.tier) and reaches(worker.tier, WEAKEST)


def remedy_of(worker: Worker) -> Pair:
    """What would help there, as its own probe says it."""
    said = worker.sandbox
    return Pair(said.get("remedy_en", ""), chinese=said.get("remedy_zh", ""))


# --- by the worker that holds the lease ----------------------------------------
def claim(queues: Sequence[str], worker: str) -> CaptureRun | None:
    """The oldest that may run here; none while a click waits for these queues."""
    row = Worker.objects.filter(pk=worker).first()
    if not (row and queues and is_strong(row)) or not row.takes_runs:
        return None
    waiting = waiting_in(queues)
    capped = scheduling.requesters_at_their_cap(Run, CaptureRun)
    waiting = waiting.exclude(requester__in=capped)
    if not waiting.exists() or scheduling.is_click_waiting(queues, row):
        return None
    if scheduling.is_last_slot_for_clicks(row):
        return None
    pk = jobs.take(waiting.only("pk"), worker)
    return jobs.loaded(CaptureRun.objects.select_related("capture", "build"), pk)


def waiting_in(queues: Sequence[str]) -> QuerySet[CaptureRun]:
    return scheduling.waiting_behind(CaptureRun.objects.all(), queues)


def finish(run: CaptureRun, outcome: str, reason: str = "", **found: Any) -> bool:
    """Keep what it showed; False, with nothing written, when the lease was lost."""
    return jobs.finished(run, outcome=outcome, reason=reason[:200], found=found)


# --- by anybody ----------------------------------------
def reap() -> dict[str, int]:
    """Requeue or end what other workers have lost, or what no worker serves."""
    reaped = jobs.reap(CaptureRun, IS_LOST, {"outcome": ERROR})
    reaped["build_missing"] = ledger.end_of_removed_builds(CaptureRun, outcome=ERROR)
    return reaped
