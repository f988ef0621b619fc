"""`Prefer: wait=30`: an answer that waits for the end of the run, for a while."""

from __future__ import annotations

import re
import time
from threading import BoundedSemaphore

from rest_framework.request import Request

from runner.limits import MAX_WAIT_S, WAITING
from runner.models.job import QueueJob

PLACES = BoundedSemaphore(WAITING)
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*(\d{1,4})(?=$|[,;\s])")

pause = time.sleep
now = time.monotonic


def wanted(request: Request) -> int:
    """Seconds the client would wait, at most MAX_WAIT_S; 0 where it says nothing."""
    found = WAIT.search(request.headers.get("Prefer", "").lower())
    return min(int(found[1]), MAX_WAIT_S) if found else 0


def wait_for(job: QueueJob, seconds: int) -> bool:
    """Wait until it is over or the time is; False where no place is free.

    The row is looked at ever more rarely, once a second in the end.
    """
    if not seconds or job.is_over:
        return bool(seconds)
    if not PLACES.acquire(blocking=False):
        return False
    try:
        end, step = now() + seconds, FIRST_PAUSE_S
        while not is_over(job) and (left := end - now()) > 0:
            pause(min(step, left))
            step = min(step * 1.5, LONGEST_PAUSE_S)
    finally:
        PLACES.release()
    return True


def is_over(job: QueueJob) -> bool:
    rows = type(job)._default_manager.filter(pk=job.pk)
    state = rows.values_list("state", flat=True).first()
    return state not in QueueJob.ACTIVE
