"""The queue of bisections: rows that a worker takes to ask the next question.

A question is a run like any other, so its lease, its log, its GPUs and its evidence are
those of runs. Between two questions a worker holds the row for as long as it takes to
look at the answer, or to install a release. Steps and the next run are written
together, so that a killed worker neither loses nor doubles one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from kb.choices import DeviceClass
from kb.models import Repro
from runner import harness
from runner.bisecting import search, span, steps, subject
from runner.bisecting.span import Span
from runner.bisecting.subject import Subject
from runner.builds import registry
from runner.models import Bisection, Build, Run, Worker
from runner.runs import admission, jobs, refusals, submission
from runner.runs.admission import FleetSnapshot
from runner.runs.retries import LEASE
from runner.runs.submission import MAY_WAIT
from runner.transport import publish

# How the phase of a row begins while a release is installed.
INSTALLING = "install "


def submit(
    repro: Repro, good: str, bad: str, requester: str = "", *, install: bool = False
) -> Bisection:
    """Queue a bisection, or return the active one of the same question.

    `install`: also of releases that are not here; an end may be one, too, and is looked
    for once a worker asks the index. Raises SpanError where the ends name no builds,
    RunRefused where it can judge none, or too many bisections wait.
    """
    if repro.is_model:
        raise refusals.ONLY_A_MODEL.refusal("model")
    key: dict[str, Any] = {
        **{"repro_digest": repro.digest, "protocol": harness.PROTOCOL},
        **{"good": good, "bad": bad, "install": install},
    }
    if row := Bisection.objects.filter(**key, state__in=Bisection.ACTIVE).first():
        return row
    here = runnable(repro)
    known = subject.subject_of(repro, repro.device)
    found = span_of(known, here, (good, bad), install=install)
    full, own_full = refusals.BISECTIONS_FULL, refusals.OWN_BISECTIONS_FULL
    if refused := jobs.too_many(Bisection, requester, full, own_full):
        raise refused
    row = Bisection.objects.create(
        **key,
        record=repro.record,
        repro_name=repro.name,
        device=repro.device,
        builds=found.builds,
        first=found.first,
        requester=requester,
    )
    for slug in sorted(here)[:1]:
        transaction.on_commit(partial(wake_up, slug), robust=True)
    return row


def span_of(
    known: Subject, here: set[str], ends: tuple[str, str], *, install: bool
) -> Span:
    """Without builds where the index has to say first whether there is such an end."""
    order = known.candidates(here)
    missing = span.missing(known, order, ends)
    may_be = len(set(ends)) == len(ends) and all(map(span.is_release, missing))
    if install and missing and may_be:
        return Span([], "")
    return span.between(known, order, *ends)


def wake_up(slug: str) -> None:
    """Any worker may look; without a message one does so within seconds."""
    publish(f"{slug}.{DeviceClass.CPU}")


def runnable(repro: Repro) -> set[str]:
    """Builds on which some worker could run it, now or once it is back."""
    fleet, device = FleetSnapshot(), repro.device
    found = set()
    for build in admission.installed_builds():
        refused = fleet.refusal(repro, build, device)
        if refused is None or refused.code in MAY_WAIT:
            found.add(build.slug)
    return found


# --- by the worker that holds the lease ----------------------------------------
def due() -> QuerySet[Bisection]:
    """Those that wait for somebody to look: their question has been answered."""
    answered = Q(run=None) | ~Q(run__state__in=Run.ACTIVE)
    rows = Bisection.objects.filter(
        answered,
        state__in=Bisection.ACTIVE,
        lease_until=None,
        protocol=harness.PROTOCOL,
    )
    if not settings.INSTALL_RELEASES:
        rows = rows.filter(install=False)
    elif registry.is_installing():
        # One at a time on a host. Whoever was killed at it has left the lock.
        rows = rows.exclude(phase__startswith=INSTALLING)
    return rows.order_by("created_at", "pk")


def claim(worker: str) -> Bisection | None:
    if jobs.takes_none(Worker.objects.filter(pk=worker).first()):
        return None
    if not due().exists():
        return None
    pk = jobs.take(due(), worker)
    rows = Bisection.objects.select_related("run", "record")
    return jobs.retry(lambda: rows.get(pk=pk), LEASE / 2) if pk else None


def note_answer(row: Bisection) -> None:
    """Make a step of the question that was answered; it is written with the next."""
    if row.run is not None:
        row.steps = [*row.steps, steps.of_run(row.run)]
        row.run = None


def follow(row: Bisection, repro: Repro) -> tuple[Subject, search.Standing]:
    """Where it stands by all that is known now. Raises Contradicted."""
    known = steps.subject_of(row, repro)
    reachable = runnable(repro) | set(row.offered or ())
    answers = known.answers(row.builds, reachable)
    standing = search.follow(row.builds, row.first, answers)
    row.steps = steps.completed(row.steps, known, standing.used)
    return known, standing


def keep(row: Bisection, **fields: Any) -> bool:
    """Write what is done so far; False, with nothing written, without a lease."""
    fields = {"steps": row.steps, "run": row.run, "lapses": 0, **fields}
    kept = jobs.retry(lambda: jobs.held(row).update(**fields))
    if kept:
        for name, value in fields.items():
            setattr(row, name, value)
    return bool(kept)


def widen(row: Bisection, repro: Repro, offered: Iterable[str]) -> bool:
    """Let releases of the index count that lie between the two ends.

    Raises SpanError where one of the ends is none of those either.
    """
    known = subject.subject_of(repro, row.device, offered=offered)
    order = known.candidates(runnable(repro) | set(row.builds))
    if row.builds:
        low, high = (order.index(row.builds[end]) for end in (0, -1))
        builds, first = order[low : high + 1], row.first
    else:
        found = span.between(known, order, row.good, row.bad)
        builds, first = found.builds, found.first
    inside = [name for name in known.offered if name in builds]
    return keep(row, builds=builds, first=first, offered=inside)


def ask(row: Bisection, repro: Repro, slug: str, trials: int) -> bool:
    """Queue the run that answers for this build, behind clicks, and wait for it.

    False, with nothing queued, without a lease. Raises RunRefused.
    """
    return jobs.retry(partial(ask_once, row, repro, slug, trials))


def ask_once(row: Bisection, repro: Repro, slug: str, trials: int) -> bool:
    build, priority = Build.objects.get(slug=slug), Run.Priority.REVERIFY
    with transaction.atomic():
        submitted = submission.submit(
            repro, build, row.device, trials, priority=priority
        )
        kept = keep(row, run=submitted.run, lease_until=None, phase="", worker="")
        # Both or neither: a run that nobody waits for would be asked twice.
        transaction.set_rollback(not kept)
    return kept


def finish(row: Bisection, reason: str = "", **found: Any) -> bool:
    fields = {"steps": row.steps, "run": None, "found": found, "reason": reason[:200]}
    return jobs.finished(row, **fields)


# --- by anybody ----------------------------------------
def cancel(row: Bisection) -> bool:
    """Cancel it, and its question where that still waits for nobody else.

    What runs already goes on to its end: its evidence is worth keeping.
    """
    if not jobs.cancel(row):
        return False
    waiting = Run.objects.filter(
        bisections=row.pk,
        state=Run.State.QUEUED,
        priority=Run.Priority.REVERIFY,
        requester="",
    )
    for run in waiting.exclude(bisections__state__in=Bisection.ACTIVE):
        jobs.cancel(run)
    return True
