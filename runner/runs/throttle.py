"""Rate limits on new runs, counted from the rows so that every process agrees.

Runs of captures count beside those of repros for whoever asks, not for the site:
strangers' calls must not keep clicks out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from runner.models import CaptureRun, Run
from runner.runs import refusals
from runner.runs.fleet import ago
from runner.runs.refusals import RunRefused

HOUR = timedelta(hours=1)
# For refusals that end when runs do, not after a known time.
RETRY_S = 30
Kind = type[Run] | type[CaptureRun]
# Of what is queued that which the site's own limit counts.
COUNTED: dict[Kind, Q] = {Run: ~Q(priority=Run.Priority.MATRIX), CaptureRun: Q()}


def refusal(requester: str, kind: Kind = Run, more: int = 1) -> RunRefused | None:
    """Why this requester may not start `more` of these now, or None.

    Codes: `throttled` for the requester's own limit, `busy` for the site's.
    """
    found = {one: counted(one, requester) for one in COUNTED}
    if found[kind]["queued"] >= settings.MAX_QUEUED:
        full = refusals.QUEUE_FULL if kind is Run else refusals.CAPTURES_FULL
        return full.refusal("busy", wait_s=RETRY_S)
    if not requester:
        return None
    waiting = sum(row["waiting"] for row in found.values())
    recent = sum(row["recent"] for row in found.values())
    if waiting >= settings.QUEUED_PER_REQUESTER:
        own_full = refusals.OWN_QUEUE_FULL
        return own_full.refusal("throttled", wait_s=RETRY_S, count=waiting)
    left = settings.RUNS_PER_HOUR - recent
    if 0 < left < more:
        return refusals.TOO_MANY_BUILDS.refusal("throttled", asked=more, left=left)
    if left < more:
        wait_s = quota(requester).wait_s or RETRY_S
        said = {"count": recent, "minutes": ceil(wait_s / 60)}
        return refusals.TOO_OFTEN.refusal("throttled", wait_s=wait_s, **said)
    return None


def counted(kind: Kind, requester: str) -> dict[str, int]:
    """Queued of all; of this requester waiting, and begun within an hour."""
    queued, own = Q(state=kind.State.QUEUED), Q(requester=requester)
    lately = own & Q(created_at__gt=ago(HOUR))
    rows = kind._default_manager.filter(queued | lately).order_by()
    return rows.aggregate(
        queued=Count("pk", filter=queued & COUNTED[kind]),
        waiting=Count("pk", filter=queued & own),
        recent=Count("pk", filter=lately),
    )


def quota(requester: str) -> Quota:
    """Runs that this requester has started in an hour, and how many it may."""
    limit, moments = settings.RUNS_PER_HOUR, []
    for kind in COUNTED:
        rows = kind._default_manager.filter(requester=requester).exclude(requester="")
        moments += Quota.of(rows, "created_at", limit).moments
    return Quota(sorted(moments), limit)


# --- at most so many an hour ---------------------------------------------------------
@dataclass(frozen=True)
class Quota:
    """What counts now, oldest first, and how much may."""

    moments: list[datetime]
    limit: int

    @classmethod
    def of(cls, rows: QuerySet[Any], column: str, limit: int) -> Quota:
        """Of these rows, by the moment in this column."""
        recent = rows.filter(**{f"{column}__gt": timezone.now() - HOUR})
        return cls(list(recent.order_by(column).values_list(column, flat=True)), limit)

    @property
    def left(self) -> int:
        return max(0, self.limit - len(self.moments))

    @property
    def reset_s(self) -> int:
        """Seconds until one counts no more; 0 where none does."""
        return free_in_s(self.moments[0]) if self.moments else 0

    @property
    def wait_s(self) -> int:
        """Seconds until one more may follow; 0 where it may now."""
        if self.left:
            return 0
        if not self.limit:
            return int(HOUR.total_seconds())
        return free_in_s(self.moments[-self.limit])


def free_in_s(moment: datetime) -> int:
    """Seconds until what happened then counts no more; at least 1."""
    return max(1, ceil((moment + HOUR - timezone.now()).total_seconds()))
