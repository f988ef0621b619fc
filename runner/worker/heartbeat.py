"""What a worker says of itself and does between runs.

A thread of the worker's process writes its row, sweeps, follows builds that come
and go, wakes its own idle slots for queued runs that nobody was told of, and ends a
worker that was asked to drain once its last run is over.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseFault, connection
from django.db.models.functions import Now

from kb.choices import DeviceClass
from runner import harness, sandbox, transport
from runner.builds import registry
from runner.models import Device, Installation, Worker
from runner.pool.keeper import PoolKeeper
from runner.runs import fleet, ledger, live_log, prune, quarantine, waiting
from runner.worker import execution

log = logging.getLogger(__name__)

TICK_SECONDS = 2.0
LOOK_SECONDS = 0.2
PRUNE_LOOK_SECONDS = 3600.0
FORGET_AFTER = timedelta(days=1)


def default_name() -> str:
    """Unlike that of any other worker: two must never share a row."""
    return full_name(f"worker-{os.getpid()}")


def full_name(name: str) -> str:
    """NAME@HOST, the form in which Celery keeps a name as it is."""
    return f"{name}@{registry.host_name()}"[:120]


def ready_installations() -> list[Installation]:
    # Also those whose interpreter vanished: their runs end as build_missing.
    rows = Installation.objects.filter(
        host=registry.host_name(),
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


def devices_of(installations: list[Installation]) -> list[dict[str, Any]]:
    """The GPUs that runs may have, each once."""
    return quarantine.offered(installations)


def record_devices(devices: list[dict[str, Any]]) -> None:
    """Write down the GPUs of this host; whether they may be used is not ours to say."""
    for item in devices:
        if not item.get("uuid"):
            continue
        fields = {
            "name": item.get("name") or "",
            "capability": item.get("capability") or "",
            "memory_mib": item.get("memory_mib") or 0,
            "driver": item.get("driver") or "",
            "last_seen": Now(),
        }
        Device.objects.update_or_create(
            host=registry.host_name(), uuid=item["uuid"], defaults=fields
        )


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
        self.row: Worker | None = None
        self._prune_due = time.monotonic() + PRUNE_LOOK_SECONDS
        self._ending = threading.Event()
        self._pool = PoolKeeper(execution.pool_socket(), settings.POOL_MEMORY_MIB)

    def stop(self) -> None:
        """Take the row away: this worker is gone. One that is paused stays so."""
        self._ending.set()
        self.join()
        Worker.objects.filter(pk=self.worker_name, paused=False).delete()

    def run(self) -> None:
        try:
            due = 0.0
            self._pool.ensure()
            while not self._ending.wait(LOOK_SECONDS):
                if self.stopping() and not execution.stopping.is_set():
                    execution.stopping.set()
                    due = 0.0
                if time.monotonic() >= due:
                    self._pool.ensure()
                    self.tick()
                    due = time.monotonic() + TICK_SECONDS
        finally:
            self._pool.stop()
            connection.close()

    def tick(self) -> None:
        try:
            queues = self.announce()
            swept = {what: n for what, n in ledger.sweep().items() if n}
            if swept:
                log.warning("Swept: %s", swept)
            live_log.pack_finished()
            if time.monotonic() >= self._prune_due:
                self._prune_due = time.monotonic() + PRUNE_LOOK_SECONDS
                prune.prune_if_due()
            self.end_when_drained()
            self.wake_idle_slots(queues)
        except DatabaseFault as error:
            log.warning("Database: %s", error)
            connection.close()

    def announce(self) -> list[str]:
        """Write the row; returns the queues it names."""
        rows = [] if self.stopping() else ready_installations()
        queues = queues_of(rows)
        tier = sandbox.tier()
        devices = devices_of(rows)
        record_devices(devices)
        fields = {
            "host": registry.host_name(),
            "queues": queues,
            "devices": devices,
            "tier": tier.tier,
            "sandbox": tier._asdict(),
            "slots": self.slots,
            "protocol": harness.PROTOCOL,
            "last_seen": Now(),
        }
        first = {} if self.row else {"started_at": Now(), "draining": False}
        self.row, _ = Worker.objects.update_or_create(
            name=self.worker_name,
            defaults={**fields, **first},
            create_defaults={**fields, "started_at": Now()},
        )
        for queue in queues:
            if queue not in self.heard and self.listen(queue):
                self.heard.add(queue)
                log.info("Serving %s", queue)
        return queues

    def wake_idle_slots(self, queues: list[str]) -> None:
        """A wake-up may have been lost, or its worker; the row still waits."""
        assert self.row  # noqa: S101  # announced above
        if self.row.paused or self.row.draining:
            return
        idle = self.slots - fleet.running_on(self.worker_name)
        for queue in waiting.next_waiting(queues, self.row, idle):
            transport.publish(queue)

    def end_when_drained(self) -> None:
        """As if told to stop: a warm shutdown, with nothing left to give back."""
        if self.stopping() or not (self.row and self.row.draining):
            return
        if not fleet.running_on(self.worker_name):
            log.info("Drained.")
            os.kill(os.getpid(), signal.SIGTERM)


def forget_old_workers() -> None:
    """Drop the rows of workers that died without a word."""
    gone = Worker.objects.filter(last_seen__lt=fleet.ago(FORGET_AFTER))
    gone.exclude(paused=True).delete()
