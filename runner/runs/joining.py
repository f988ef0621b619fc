"""Who waits for a run: joining one of the same question, and taking one's click back.

Both hold the run's row for a transaction (SQLite has one writer at a time), so that
nobody joins what the last one who waited cancels just then.
"""

from __future__ import annotations

from django.db import transaction

from runner.limits import MOST_JOINERS
from runner.models import Joiner, Run
from runner.models.run import RunQuerySet
from runner.runs import jobs

SITE = ""


def join(same: RunQuerySet, requester: str, trials: int, priority: int) -> Run | None:
    """The active run among these, now with this requester; None if there is none.

    Raises priority and trials of one that is still queued to what is asked now.
    """
    with transaction.atomic():
        run = same.wanted().select_for_update().first()
        if run is None:
            return None
        queued = Run.objects.filter(pk=run.pk, state=Run.State.QUEUED)
        queued.filter(priority__gt=priority).update(priority=priority)
        queued.filter(trials__lt=trials).update(trials=trials)
        if requester != run.requester:
            full = run.joiners.count() >= MOST_JOINERS
            run.joiners.get_or_create(requester=SITE if full else requester)
    run.refresh_from_db(fields=["state", "priority", "trials"])
    return run


def cancel(run: Run, requester: str, *, outright: bool = False) -> int | None:
    """Take back one's click; 0: nobody else waits, so the run is cancelled.

    How many others still wait for it, or None where it is over. `outright`: cancel it
    for all of them.
    """
    with transaction.atomic():
        held = Run.objects.active().select_for_update().filter(pk=run.pk).first()
        if held is None:
            return None
        ending = outright or held.cancel_requested
        if not ending and give_up(held, requester):
            return others(held, requester)
        return 0 if jobs.cancel(held) else None


def give_up(run: Run, requester: str) -> bool:
    """False where nobody else waits. Limits count the run for the next one then."""
    if requester != run.requester:
        run.joiners.filter(requester=requester).delete()
        return True
    heir = run.joiners.order_by("pk").first()
    if heir is None:
        return False
    run.requester = heir.requester
    Run.objects.filter(pk=run.pk).update(requester=heir.requester)
    heir.delete()
    return True


def others(run: Run, requester: str) -> int:
    """How many wait for the run besides this one; the site itself counts as one."""
    waiting = set(Joiner.objects.filter(run=run).values_list("requester", flat=True))
    return len((waiting | {run.requester}) - {requester})
