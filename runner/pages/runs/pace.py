"""How long a run under way has taken, against its limit and what runs usually take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from django.db.models import F, QuerySet
from django.utils import timezone

from kb.choices import OUR_ORIGINS
from portable import harness
from runner.models import Evidence, Run
from runner.runs.live_log import Step

# The newest runs whose median is what is usual.
SAMPLE = 20


@dataclass(frozen=True)
class Usual:
    """The median of past runs. `where`: build, repro, or recorded (not run here)."""

    seconds: float
    runs: int
    where: str


@dataclass(frozen=True)
class Pace:
    """Seconds so far, of the whole run and of the check under way."""

    elapsed_s: float
    check_s: float | None
    limit_s: float
    usual: Usual | None

    @property
    def is_late(self) -> bool:
        return bool(self.usual and self.elapsed_s > self.usual.seconds)


def pace_of(run: Run, steps: Sequence[Step]) -> Pace | None:
    """None for a run that is over."""
    if run.is_over:
        return None
    began = run.started_at if run.state == Run.State.RUNNING else run.created_at
    elapsed_s = seconds_since(began or run.created_at)
    check = steps[-1] if steps and steps[-1].ended is None else None
    return Pace(
        elapsed_s=elapsed_s,
        check_s=max(0.0, elapsed_s - check.began) if check else None,
        limit_s=limit_of(run),
        usual=usual(run),
    )


def seconds_since(moment: datetime) -> float:
    # Not below 0 where the database's clock is ahead of this one.
    return max(0.0, (timezone.now() - moment).total_seconds())


def limit_of(run: Run) -> float:
    """Seconds that the check under way may take."""
    limit = float(run.repro.header.get("timeout_s") or 60)
    waits_for_torch = run.phase in ("", "requirements")
    return max(limit, harness.PROBE_TIMEOUT_S) if waits_for_torch else limit


def usual(run: Run) -> Usual | None:
    """What equal runs took: on this build, else on any, else as evidence has it."""
    equal = Run.objects.filter(
        repro=run.repro_id,
        repro_digest=run.repro_digest,
        device=run.device,
        trials=run.trials,
        state=Run.State.FINISHED,
        evidence__isnull=False,
    )
    for where, rows in (("build", equal.filter(build=run.build_id)), ("repro", equal)):
        if found := durations(rows):
            return Usual(median(found), len(found), where)
    if found := list(recorded(run)):
        return Usual(median(found), len(found), "recorded")
    return None


def durations(rows: QuerySet[Run]) -> list[float]:
    taken: Iterable[timedelta | None] = (
        rows.order_by("-finished_at")
        .annotate(taken=F("finished_at") - F("started_at"))
        .values_list("taken", flat=True)[:SAMPLE]
    )
    return [item.total_seconds() for item in taken if item is not None]


def recorded(run: Run) -> Iterable[float]:
    """Of evidence on this build that came with the record or was made here."""
    rows = Evidence.objects.filter(
        origin__in=OUR_ORIGINS,
        repro_digest=run.repro_digest,
        build=run.build_id,
        device_class=run.device,
        body__trials=run.trials,
    )
    newest = rows.order_by("-started_at").values_list("body__duration_s", flat=True)
    return newest[:SAMPLE]
