"""The Celery task, and the worker process that runs it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from celery import current_app, shared_task
from celery.platforms import SecurityWarning
from celery.worker import state

from runner import sandbox, transport
from runner.worker import execution
from runner.worker.heartbeat import Announcer, forget_old_workers

publish = transport.publish
# Nobody publishes to it: a worker without builds must listen somewhere.
IDLE_QUEUE = "idle"


@shared_task(name=transport.WAKE, bind=True)  # type: ignore[untyped-decorator]
def wake(task: Any, queue: str) -> None:
    """Execute queued runs until none is left; `queue` says where one waits."""
    execution.drain(task.request.hostname)


def is_stopping() -> bool:
    return state.should_stop is not None or state.should_terminate is not None


def listener(worker: Any) -> Callable[[str], bool]:
    """Makes a running worker consume one more queue."""

    def listen(queue: str) -> bool:
        consumer = worker.consumer
        if consumer is None or consumer.task_consumer is None:
            return False
        name = transport.queue_name(queue)
        consumer.call_soon(consumer.add_task_queue, name)
        return True

    return listen


def serve(name: str, slots: int) -> int:
    """Run a worker until it is told to stop; returns its exit status.

    Slots are threads: a run is a process of its own, so nothing is gained by more.
    """
    # About pickled messages under root; ours are JSON.
    warnings.simplefilter("ignore", SecurityWarning)
    announcer = Announcer(name, slots, is_stopping)
    forget_old_workers()
    sandbox.remove_leftovers()
    announcer.announce()
    worker = current_app.Worker(
        hostname=name,
        pool="threads",
        concurrency=slots,
        queues=[
            transport.queue_name(queue) for queue in (IDLE_QUEUE, *announcer.heard)
        ],
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        loglevel="WARNING",
        redirect_stdouts=False,
        quiet=True,
    )
    announcer.listen = listener(worker)
    announcer.start()
    try:
        worker.start()
    finally:
        announcer.stop()
    return int(worker.exitcode or 0)
