"""The tasks of Celery, and the worker process that runs them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from celery import current_app, shared_task
from celery.beat import EmbeddedService, Scheduler
from celery.platforms import SecurityWarning
from celery.worker import state

from runner import sandbox, transport
from runner.captures import keeping
from runner.runs import jobs, prune
from runner.worker import drain
from runner.worker.heartbeat import Heartbeat, forget_old_workers

# What is periodic (CELERY_BEAT_SCHEDULE) comes here; every worker consumes it.
CHORES = "chores"
# So long a worker that starts tries again while the database is away.
START = timedelta(minutes=1)


@shared_task(name=transport.WAKE, bind=True)  # type: ignore[untyped-decorator]
def wake(task: Any, queue: str) -> None:
    """Execute queued runs until none is left. `queue`: where one was submitted."""
    drain.drain(task.request.hostname)


@shared_task(name="runner.prune")  # type: ignore[untyped-decorator]
def prune_old() -> None:
    """Delete what is old, once a day however many workers there are."""
    prune.prune_if_due()


@shared_task(name="runner.forget_captures")  # type: ignore[untyped-decorator]
def forget_captures() -> None:
    """Delete captures that are over a week old."""
    keeping.forget()


def is_stopping() -> bool:
    return state.should_stop is not None or state.should_terminate is not None


def consume_with(worker: Any) -> Callable[[str], bool]:
    """A function that makes a running worker consume one more queue."""

    def consume(queue: str) -> bool:
        consumer = worker.consumer
        if consumer is None or consumer.task_consumer is None:
            return False
        name = transport.queue_name(queue)
        consumer.call_soon(consumer.add_task_queue, name)
        return True

    return consume


def serve(name: str, slots: int) -> int:
    """Run a worker until it is told to stop; returns its exit status.

    Slots are threads, because each run is a process of its own anyway.
    """
    # It warns of pickled messages under root; ours are JSON.
    warnings.simplefilter("ignore", SecurityWarning)
    heartbeat = Heartbeat(name, slots, is_stopping)
    jobs.retry(forget_old_workers, START)
    sandbox.remove_leftovers()
    jobs.retry(heartbeat.announce, START)
    worker = current_app.Worker(
        hostname=name,
        pool="threads",
        concurrency=slots,
        queues=[transport.queue_name(queue) for queue in (CHORES, *heartbeat.consumed)],
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        loglevel="WARNING",
        redirect_stdouts=False,
        quiet=True,
    )
    heartbeat.consume = consume_with(worker)
    heartbeat.start()
    # A daemon: it ends with the process, whatever it waits for.
    EmbeddedService(current_app, thread=True, scheduler_cls=Scheduler).start()
    try:
        worker.start()
    finally:
        heartbeat.stop()
    return int(worker.exitcode or 0)
