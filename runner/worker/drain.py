"""What a slot of a worker does once it is woken, until nothing waits."""

from __future__ import annotations

import logging
import threading

from runner.captures import queue as captures
from runner.models import Worker
from runner.runs import ledger
from runner.sweeps import queue as sweeps
from runner.worker import capturing, execution, lease, sweeping

log = logging.getLogger(__name__)
# A slot counts what the others have taken (scheduling.is_last_slot_for_clicks).
claiming = threading.Lock()


def drain(worker: str) -> int:
    """Execute what waits in the worker's queues; returns how many jobs it took.

    Clicks come first, then captures and sweeps, then fills of the matrix.
    """
    done = 0
    while not lease.stopping.is_set() and next_one(worker):
        done += 1
    return done


def next_one(worker: str) -> bool:
    """Execute the next capture, sweep or run; False where none waits."""
    row = Worker.objects.filter(pk=worker).first()
    queues = row.queues if row else []
    with claiming:
        capture = captures.claim(queues, worker)
    if capture:
        # By the run's own id: that of the capture is its only address.
        log.info("Capture run %s on %s", capture.pk, capture.queue)
        capturing.execute(capture)
        return True
    if sweep := sweeps.claim(queues, worker):
        log.info("Sweep %s: attempt %d on %s", sweep.pk, sweep.attempt, sweep.queue)
        sweeping.execute(sweep, queues)
        return True
    with claiming:
        run = ledger.claim(queues, worker)
    if run is None:
        return False
    log.info("Run %s: attempt %d on %s", run.pk, run.attempt, run.queue)
    execution.execute(run)
    return True
