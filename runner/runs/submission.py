"""Submitting a run: gives a fresh result, the active run of the same key, or a new run.

A run that nothing here could execute is refused at once, with what would help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from kb.choices import Verdict
from kb.models import Repro
from portable import harness
from runner import parameters
from runner.models import Build, Run
from runner.runs import fleet, jobs, joining, refusals, throttle
from runner.runs.admission import FleetSnapshot

NO_FRESH_RESULT = (Verdict.ERROR, Verdict.INCONCLUSIVE)
# Refusal codes that re-verification and matrix runs wait out in the queue.
MAY_WAIT = {"paused", "offline"}


@dataclass(frozen=True)
class Submitted:
    run: Run
    joined: bool = False
    cached: bool = False


def key_of(
    repro: Repro, build: Build, device: str, values: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields in which runs are equal that would do the same."""
    chosen = harness.choose(harness.parse_header(repro.source), values)
    return {
        "repro_digest": repro.digest,
        "build": build,
        "device": device,
        "protocol": harness.PROTOCOL,
        "parameters": parameters.text_of(chosen),
    }


def submit(
    repro: Repro,
    build: Build,
    device: str,
    trials: int,
    requester: str = "",
    again: bool = False,
    priority: int = Run.Priority.CLICK,
    values: Mapping[str, Any] | None = None,
) -> Submitted:
    """Queue a run, join the one that is active, or return a fresh result.

    `values` of parameters, the defaults among them or not. Raises ParameterError where
    the repro does not allow them, RunRefused where nothing here could execute it, or
    the requester or the site has too many queued runs.
    """
    key = key_of(repro, build, device, values or {})
    same_key = Run.objects.filter(**key)
    if not again and (cached := fresh_result(same_key, trials)):
        return Submitted(cached, cached=True)
    while True:
        if active := joining.join(same_key, requester, trials, priority):
            return Submitted(active, joined=True)
        refuse(repro, build, device, requester, priority)
        run = Run(
            **key,
            **fleet.requirements(repro.header),
            repro=repro,
            trials=trials,
            priority=priority,
            requester=requester,
        )
        # False: the same run was submitted in between, and may even have ended.
        if insert(run):
            jobs.wake(run)
            return Submitted(run)


def refuse(
    repro: Repro, build: Build, device: str, requester: str, priority: int
) -> None:
    """Raise RunRefused where no worker could execute it, or a rate limit is reached."""
    refused = FleetSnapshot().refusal(repro, build, device)
    if priority == Run.Priority.CLICK:
        refused = refused or throttle.refusal(requester)
    elif refused and refused.code in MAY_WAIT:
        return
    if refused:
        raise refused


def insert(run: Run) -> bool:
    """False where a run of the same key exists that may be joined.

    Raises RunRefused where its repro was dropped meanwhile.
    """
    try:
        with transaction.atomic():
            run.save(force_insert=True)
    except IntegrityError:
        if not Repro.objects.filter(pk=run.repro_id).exists():
            raise refusals.REPRO_GONE.refusal("gone") from None
        return False
    return True


def fresh_result(same: QuerySet[Run], trials: int) -> Run | None:
    """The newest verdict of the last FRESH_HOURS, from at least as many trials."""
    return (
        same.filter(
            state=Run.State.FINISHED,
            trials__gte=trials,
            finished_at__gte=fleet.ago(timedelta(hours=settings.FRESH_HOURS)),
        )
        .exclude(verdict__in=NO_FRESH_RESULT)
        .order_by("-finished_at")
        .first()
    )
