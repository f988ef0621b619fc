"""Retention: deletes what is old or superseded, never evidence."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from runner.models import Chore, LogChunk, Run, Sweep
from runner.runs import fleet

EVERY = timedelta(days=1)
# Rows deleted in one transaction: others write in between.
BATCH = 500
Due = QuerySet[Run] | QuerySet[Sweep]


def with_old_logs() -> QuerySet[Run]:
    """Runs that ended LOG_DAYS ago and have a log; evidence keeps its head and tail."""
    long_ago = fleet.ago(timedelta(days=settings.LOG_DAYS))
    lines = LogChunk.objects.filter(run=OuterRef("pk"))
    return Run.objects.filter(Exists(lines), finished_at__lt=long_ago)


def superseded_runs() -> QuerySet[Run]:
    """Runs that ended RUN_DAYS ago and were cancelled or superseded by a newer one."""
    newer = Run.objects.filter(
        repro=OuterRef("repro"),
        build=OuterRef("build"),
        device=OuterRef("device"),
        parameters=OuterRef("parameters"),
        state=Run.State.FINISHED,
        finished_at__gt=OuterRef("finished_at"),
    )
    old = Run.objects.filter(
        finished_at__lt=fleet.ago(timedelta(days=settings.RUN_DAYS))
    )
    ended = old.exclude(state__in=Run.ACTIVE)
    return ended.filter(Exists(newer) | Q(state=Run.State.CANCELLED))


def broken_off_sweeps() -> QuerySet[Sweep]:
    """Sweeps that ended RUN_DAYS ago without all of their cells, so no evidence."""
    long_ago = fleet.ago(timedelta(days=settings.RUN_DAYS))
    return Sweep.objects.filter(digest="", finished_at__lt=long_ago)


def prune() -> dict[str, int]:
    """Delete what is due; returns the counts."""
    due: dict[str, Due] = {
        "logs": with_old_logs(),
        "runs": superseded_runs(),
        "sweeps": broken_off_sweeps(),
    }
    done = {name: delete(rows, log=name == "logs") for name, rows in due.items()}
    Chore.note(Chore.PRUNE, done)
    return done


def delete(rows: Due, *, log: bool) -> int:
    """Delete these rows, or of runs the `log` alone."""
    total = 0
    while keys := list(rows.order_by().values_list("pk", flat=True)[:BATCH]):
        with transaction.atomic():
            # In one statement: the cascade would fetch the lines of each run.
            if rows.model is Run:
                LogChunk.objects.filter(run__in=keys).delete()
            if not log:
                rows.model._default_manager.filter(pk__in=keys).delete()
        total += len(keys)
    return total


def prune_if_due() -> dict[str, int]:
    """Prune where nobody has for a day; {} otherwise."""
    return prune() if Chore.is_due(Chore.PRUNE, EVERY) else {}
