"""How many long logs one process looks up at once.

Reading one is processor time of Python, of which a process has one core's: several at
a time would each take longer, and hold the threads and the core that readers of pages
wait for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.utils.translation import gettext as _

from kb.problems import Problem

# Of the eight threads of a process (config/gunicorn.py).
AT_WORK = 1
# So many more wait for their turn, and so long, in seconds; the others are sent away.
WAITING, WAIT_S = 2, 2.0
RETRY_S = 5
# Characters that cost no more than a page does: they never wait.
SHORT = 16 * 1024

_at_work = threading.BoundedSemaphore(AT_WORK)
_admitted = threading.BoundedSemaphore(AT_WORK + WAITING)


@contextmanager
def slot(*texts: str) -> Iterator[None]:
    """Look texts up within it, long ones one after the other. Raises Problem `busy`."""
    if sum(map(len, texts)) <= SHORT:
        yield
        return
    if not _admitted.acquire(blocking=False):
        raise busy()
    try:
        if not _at_work.acquire(timeout=WAIT_S):
            raise busy()
        try:
            yield
        finally:
            _at_work.release()
    finally:
        _admitted.release()


def busy() -> Problem:
    said = _("Many logs are being looked up right now. Try again in a few seconds.")
    return Problem("busy", said, wait=RETRY_S)
