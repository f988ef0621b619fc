"""The retry policy: how long a lease lasts, and how often a lost job starts again.

A run counts its attempts. A long job, as a sweep, counts the leases that lapsed without
one more piece of it. `runner.runs.jobs` and `runner.runs.ledger` carry it out.
"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db.models import Q

from portable import harness
from runner.models import Run

LEASE = timedelta(seconds=settings.LEASE_SECONDS)
# Well within the lease, and often enough to hear of a cancellation in a second.
BEAT_SECONDS = min(1.0, settings.LEASE_SECONDS / 4)
# Attempts at a run, the first among them.
MAX_ATTEMPTS = 3
# Lapsed leases without one more piece, after which a long job kills its workers.
MOST_LAPSES = 3
DEADLINE_SLACK_S = 120.0

# Of rows whose lease has lapsed those that do not start again.
IS_LOST = Q(attempt__gte=MAX_ATTEMPTS)
LONG_IS_LOST = Q(lapses__gte=MOST_LAPSES - 1)


def deadline_s(run: Run) -> float:
    """Seconds after which an attempt counts as hung.

    Every check has its own limit; this one is for a worker that hangs itself.
    """
    header = run.repro.header
    limit = float(header.get("timeout_s") or 60)
    checks = len(harness.check_order(run.repro.checks, run.trials))
    variants = len(header.get("variants") or {})
    return limit * checks * (1 + variants) + DEADLINE_SLACK_S
