"""Executes sweeps: a worker's from the queue, and those of a command line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from kb.models import Repro
from portable import harness
from runner.builds import registry
from runner.models import Sweep
from runner.runs import jobs, scheduling
from runner.sweeps import queue
from runner.sweeps.cells import Axis, key_of, next_cell
from runner.worker import execution
from runner.worker.execution import Job, Listeners
from runner.worker.lease import LeaseKeeper

log = logging.getLogger(__name__)


@contextmanager
def cells_of(
    job: Job, interpreter: str, listeners: Listeners
) -> Iterator[harness.Cells]:
    """A repro of the CPU, ready to be asked at any values. Raises Cancelled."""
    with execution.prepared(job, interpreter, listeners) as start_checks:
        yield harness.Cells(
            job.source,
            start_checks("", ()),
            trials=job.trials,
            on_event=listeners.phase,
            cancelled=listeners.cancelled,
        )


# --- of the queue ----------------------------------------
def execute(sweep: Sweep, queues: Sequence[str]) -> bool:
    """Execute a claimed sweep until it ends, or a click waits for this worker.

    False when its lease was lost meanwhile.
    """
    repro = Repro.objects.filter(
        record=sweep.record_id, name=sweep.repro_name, digest=sweep.repro_digest
    ).first()
    if repro is None:
        return queue.finish(sweep, "refused")
    found = registry.installation_for(sweep.build_slug, repro.header.get("stack"))
    if found is None:
        return queue.finish(sweep, "build_missing")
    with LeaseKeeper(sweep) as keeper:
        end = go_on(sweep, repro, found.interpreter, queues, keeper)
    if keeper.lost:
        log.warning("Sweep %s: lease lost", sweep.pk)
        return False
    return end()


def go_on(
    sweep: Sweep,
    repro: Repro,
    interpreter: str,
    queues: Sequence[str],
    keeper: LeaseKeeper,
) -> Callable[[], bool]:
    """Do the cells that are left; how the sweep is to end."""
    job = Job(repro.source, repro.name, repro.record_id, sweep.trials)
    listeners = Listeners(lambda phase, text: None, cancelled=keeper.should_stop)
    axes = sweep.ordered_axes
    try:
        with cells_of(job, interpreter, listeners) as cells:
            sweep.same = cells.evidence(repro.name)
            if cells.unmet or sweep.same["build"]["slug"] != sweep.build_id:
                reason = cells.unmet[1] if cells.unmet else "build_missing"
                return partial(queue.finish, sweep, reason)
            while at := next_cell(axes, sweep.done):
                if not queue.keep(sweep, cells.at(at)):
                    keeper.lost = True
                    return lambda: False
                if scheduling.is_click_waiting(queues):
                    return partial(jobs.give_back, sweep)
    except harness.Cancelled:
        return partial(jobs.give_back, sweep)
    except OSError as error:  # as a full disk has it
        log.error("Sweep %s: %s", sweep.pk, error)
        return partial(queue.finish, sweep, "refused")
    return partial(queue.finish, sweep)


def run_here(
    job: Job,
    interpreter: str,
    axes: dict[str, Axis],
    listeners: Listeners,
    each: Callable[[dict[str, Any]], None],
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """All cells, now and without a queue: what is the same in them, and the cells.

    Raises Unmet where the requirements are not met, Cancelled.
    """
    found: list[dict[str, Any]] = []
    done: dict[tuple[Any, ...], str] = {}
    with execution.pool(), cells_of(job, interpreter, listeners) as cells:
        if cells.unmet:
            raise Unmet(*cells.unmet)
        while at := next_cell(axes, done):
            cell = cells.at(at)
            done[key_of(axes, at)] = cell["verdict"]
            found.append(cell)
            each(cell)
        return cells.evidence(job.name), found


class Unmet(Exception):
    """The requirements are not met: verdict and reason."""

    def __init__(self, verdict: str, reason: str) -> None:
        super().__init__(f"{verdict}: {reason}")
        self.verdict = verdict
