"""Rate limits on new runs, counted from the rows so that every process agrees."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Count, Q

from kb.hourly import HOUR, Quota
from runner.models import Run
from runner.runs import refusals
from runner.runs.fleet import ago
from runner.runs.refusals import RunRefused

# For refusals that end when runs do, not after a known time.
RETRY_S = 30


def refusal(requester: str) -> RunRefused | None:
    """Why this requester may not start a run now, or None.

    Codes: `throttled` for the requester's own limit, `busy` for the site's.
    """
    queued = Q(state=Run.State.QUEUED)
    own = Q(requester=requester)
    rows = Run.objects.filter(queued | own & Q(created_at__gt=ago(HOUR)))
    counted = rows.order_by().aggregate(
        clicks=Count("pk", filter=queued & ~Q(priority=Run.Priority.MATRIX)),
        waiting=Count("pk", filter=queued & own),
        recent=Count("pk", filter=own & Q(created_at__gt=ago(HOUR))),
    )
    if counted["clicks"] >= settings.MAX_QUEUED:
        return refusals.QUEUE_FULL.refusal("busy", wait_s=RETRY_S)
    if not requester:
        return None
    if counted["waiting"] >= settings.QUEUED_PER_REQUESTER:
        return refusals.OWN_QUEUE_FULL.refusal(
            "throttled", wait_s=RETRY_S, count=counted["waiting"]
        )
    if counted["recent"] >= settings.RUNS_PER_HOUR:
        return refusals.TOO_OFTEN.refusal(
            "throttled", wait_s=quota(requester).wait_s, count=counted["recent"]
        )
    return None


def quota(requester: str) -> Quota:
    """Runs that this requester has started in an hour, and how many it may."""
    rows = Run.objects.filter(requester=requester).exclude(requester="")
    return Quota.of(rows, "created_at", settings.RUNS_PER_HOUR)
