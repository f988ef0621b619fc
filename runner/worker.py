"""What a worker says of itself and does between runs.

A thread of the worker's process writes its row, sweeps, follows builds that come
and go, and wakes its own idle slots for queued runs that nobody was told of.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from django.db import Error as DatabaseFault
from django.db import connection
from django.db.models.functions import Now

from kb.choices import DeviceClass
from runner import builds, execution, ledger, sandbox, transport
from runner.models import Installation, Worker

log = logging.getLogger(__name__)

TICK_SECONDS = 2.0
LOOK_SECONDS = 0.2
FORGET_AFTER = timedelta(days=1)


def default_name() -> str:
    """Unlike that of any other worker: two must never share a row."""
    return full_name(f"worker-{os.getpid()}")


def full_name(name: str) -> str:
    """NAME@HOST, the form in which Celery keeps a name as it is."""
    return f"{name}@{builds.host_name()}"[:120]


def ready_installations() -> list[Installation]:
    # Also those whose interpreter vanished: their runs end as build_missing.
    rows = Installation.objects.filter(
        host=builds.host_name(),
        state=Installation.State.READY,
        build__isnull=False,
    )
    return list(rows.order_by("build_id"))


def queues_of(installations: list[Installation]) -> list[str]:
    """ "<slug>.cpu" for each build, "<slug>.cuda" where its probe saw a GPU."""
    queues = set()
    for row in installations:
        queues.add(f"{row.build_id}.{DeviceClass.CPU}")
        if row.facts.get("devices"):
            queues.add(f"{row.build_id}.{DeviceClass.CUDA}")
    return sorted(queues)


def devices_of(installations: list[Installation]) -> list[dict[str, object]]:
    """The GPUs that any build sees, as the probe describes them, each once."""
    devices: list[dict[str, object]] = []
    for row in installations:
        devices += [
            item for item in row.facts.get("devices", []) if item not in devices
        ]
    return devices


class Announcer(threading.Thread):
    """The worker's row, sweeper and alarm clock.

    `listen(queue)`, set once the worker exists, makes it take wake-ups of one more
    queue and says whether it could yet; `stopping()` is True once it takes no more
    runs.
    """

    def __init__(
        self,
        name: str,
        slots: int,
        stopping: Callable[[], bool],
    ) -> None:
        super().__init__(name="announcer", daemon=True)
        self.worker_name = name
        self.slots = slots
        self.listen: Callable[[str], bool] = lambda queue: True
        self.stopping = stopping
        self.heard: set[str] = set()
        self._ending = threading.Event()

    def stop(self) -> None:
        """Take the row away: this worker is gone."""
        self._ending.set()
        self.join()
        Worker.objects.filter(pk=self.worker_name).delete()

    def run(self) -> None:
        try:
            due = 0.0
            while not self._ending.wait(LOOK_SECONDS):
                if self.stopping() and not execution.stopping.is_set():
                    execution.stopping.set()
                    due = 0.0
                if time.monotonic() >= due:
                    self.tick()
                    due = time.monotonic() + TICK_SECONDS
        finally:
            connection.close()

    def tick(self) -> None:
        try:
            queues = self.announce()
            swept = {what: n for what, n in ledger.sweep().items() if n}
            if swept:
                log.warning("Swept: %s", swept)
            self.wake_idle_slots(queues)
        except DatabaseFault as error:
            log.warning("Database: %s", error)
            connection.close()

    def announce(self) -> list[str]:
        """Write the row; returns the queues it names."""
        rows = [] if self.stopping() else ready_installations()
        queues = queues_of(rows)
        tier = sandbox.tier()
        fields = {
            "host": builds.host_name(),
            "queues": queues,
            "devices": devices_of(rows),
            "tier": tier.tier,
            "tier_reason": tier.reason_en,
            "slots": self.slots,
            "last_seen": Now(),
        }
        Worker.objects.update_or_create(
            name=self.worker_name,
            defaults=fields,
            create_defaults={**fields, "started_at": Now()},
        )
        for queue in queues:
            if queue not in self.heard and self.listen(queue):
                self.heard.add(queue)
                log.info("Serving %s", queue)
        return queues

    def wake_idle_slots(self, queues: list[str]) -> None:
        """A wake-up may have been lost, or its worker; the row still waits."""
        idle = self.slots - ledger.running_on(self.worker_name)
        for queue in ledger.next_waiting(queues, idle):
            transport.publish(queue)


def forget_old_workers() -> None:
    """Drop the rows of workers that died without a word."""
    Worker.objects.filter(last_seen__lt=ledger.ago(FORGET_AFTER)).delete()
