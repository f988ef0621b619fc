"""The Celery task, and the worker process that runs it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from celery import current_app, shared_task
from celery.platforms import SecurityWarning
from celery.worker import state
from django.db import connection

from kb.telling import outbox
from runner import sandbox, transport
from runner.worker import drain
from runner.worker.heartbeat import Heartbeat, forget_old_workers

publish = transport.publish
# Never published to: a worker without builds must consume at least one queue.
IDLE_QUEUE = "idle"


@shared_task(name=transport.WAKE, bind=True)  # type: ignore[untyped-decorator]
def wake(task: Any, queue: str) -> None:
    """Execute queued runs until none is left. `queue`: where one was submitted."""
    drain.drain(task.request.hostname)


@shared_task(name=transport.TELL)  # type: ignore[untyped-decorator]
def tell(queue: str) -> None:
    """Tell everybody of what turned. `queue`: where the wake-up came from."""
    try:
        outbox.deliver_due()
    finally:
        connection.close()


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
    forget_old_workers()
    sandbox.remove_leftovers()
    heartbeat.announce()
    worker = current_app.Worker(
        hostname=name,
        pool="threads",
        concurrency=slots,
        queues=[
            transport.queue_name(queue)
            for queue in (IDLE_QUEUE, transport.TELL_QUEUE, *heartbeat.consumed)
        ],
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        loglevel="WARNING",
        redirect_stdouts=False,
        quiet=True,
    )
    heartbeat.consume = consume_with(worker)
    heartbeat.start()
    try:
        worker.start()
    finally:
        heartbeat.stop()
    return int(worker.exitcode or 0)
