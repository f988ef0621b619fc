"""Rate limits on new runs, counted from the rows so that every process agrees."""

from __future__ import annotations

from datetime import timedelta
from math import ceil

from django.conf import settings
from django.db.models import Count, Q
from django.utils import timezone

from runner.models import Run
from runner.runs import refusals
from runner.runs.fleet import ago
from runner.runs.refusals import RunRefused

HOUR = timedelta(hours=1)
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
        wait_s = seconds_until_one_more(requester)
        return refusals.TOO_OFTEN.refusal(
            "throttled", wait_s=wait_s, count=counted["recent"]
        )
    return None


def left(requester: str) -> tuple[int, int]:
    """Runs that this requester may still start, and in how many seconds one more."""
    own = Run.objects.filter(requester=requester, created_at__gt=ago(HOUR))
    started = list(own.order_by("created_at").values_list("created_at", flat=True))
    if not requester or not started:
        return settings.RUNS_PER_HOUR, 0
    soonest = started[0] + HOUR - timezone.now()
    seconds = max(1, ceil(soonest.total_seconds()))
    return max(0, settings.RUNS_PER_HOUR - len(started)), seconds


def seconds_until_one_more(requester: str) -> int:
    """Seconds until the oldest run that counts is an hour old."""
    recent = Run.objects.filter(requester=requester).order_by("-created_at")
    started = recent.values_list("created_at", flat=True)
    oldest = started[settings.RUNS_PER_HOUR - 1]
    return max(1, ceil((oldest + HOUR - timezone.now()).total_seconds()))
