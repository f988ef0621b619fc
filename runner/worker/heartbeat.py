"""A worker's heartbeat, and its housekeeping between runs.

A thread of the worker writes its row, reaps lapsed leases, consumes the queues of
builds that were added, wakes idle slots for queued runs whose wake-up was lost, and
ends a draining worker after its last run.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseFault, connection
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from kb.choices import DeviceClass
from portable import harness
from runner import sandbox, transport
from runner.builds import registry
from runner.captures import queue as captures
from runner.models import Device, Installation, Worker
from runner.pool import client, keeper
from runner.runs import fleet, host_gpus, jobs, ledger, scheduling
from runner.sweeps import queue as sweeps
from runner.worker import execution, lease

log = logging.getLogger(__name__)

TICK_SECONDS = 2.0
POLL_SECONDS = 0.2
# A row without a heartbeat, of a worker that is gone; where an operator wants something
# of it, it waits for the worker to come back.
FORGET_AFTER, FORGET_WANTED_AFTER = timedelta(minutes=1), timedelta(days=1)


def default_name() -> str:
    """A name with this process's id: two workers must never share a row."""
    return full_name(f"worker-{os.getpid()}")


def full_name(name: str) -> str:
    """NAME@HOST, the form in which Celery keeps a name as it is."""
    return f"{name}@{registry.host_name()}"[:120]


def queues_of(installations: Iterable[Installation]) -> list[str]:
    """ "<slug>.cpu" for each build, "<slug>.cuda" where its probe saw a GPU."""
    queues = set()
    for row in installations:
        queues.add(f"{row.build_id}.{DeviceClass.CPU}")
        if row.facts.get("devices"):
            queues.add(f"{row.build_id}.{DeviceClass.CUDA}")
    return sorted(queues)


def record_devices(devices: list[dict[str, Any]]) -> None:
    """Create or update the rows of this host's GPUs, but never their state."""
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


class Heartbeat(threading.Thread):
    """Writes the worker's row, reaps, and wakes idle slots.

    `consume(queue)`, set once the worker exists, makes it consume one more queue and
    returns whether it could. `stopping()`: whether the worker takes no more runs.
    """

    def __init__(self, name: str, slots: int, stopping: Callable[[], bool]) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self.worker_name = name
        self.slots = slots
        self.consume: Callable[[str], bool] = lambda queue: True
        self.stopping = stopping
        self.consumed: set[str] = set()
        self.row: Worker | None = None
        self._began = time.monotonic()
        self._ending = threading.Event()
        self._pool = keeper.PoolKeeper(
            execution.pool_socket(), settings.POOL_MEMORY_MIB
        )
        self._warmed = self._to_warm = ""

    def stop(self) -> None:
        """Leave a row without slots: it says since when its builds are not served."""
        self._ending.set()
        self.join()
        row = Worker.objects.filter(pk=self.worker_name)
        jobs.retry(partial(row.update, slots=0, draining=False))

    def run(self) -> None:
        try:
            due = 0.0
            self._pool.ensure()
            while not self._ending.wait(POLL_SECONDS):
                self.warm_up()
                if self.stopping() and not lease.stopping.is_set():
                    lease.stopping.set()
                    due = 0.0
                if time.monotonic() >= due:
                    self._pool.ensure()
                    self.tick()
                    due = time.monotonic() + TICK_SECONDS
        finally:
            self._pool.stop()
            connection.close()
            if not self._ending.is_set():
                # Without it nobody sees the worker: whoever keeps it starts another.
                os.kill(os.getpid(), signal.SIGTERM)

    def warm_up(self) -> None:
        """Have the pool import the default build's torch before the first click."""
        if self._to_warm != self._warmed and execution.warm_up(self._to_warm):
            self._warmed = self._to_warm

    def tick(self) -> None:
        try:
            queues = self.announce()
            self.reap()
            forget_old_workers()
            self.end_when_drained()
            self.wake_idle_slots(queues)
        except DatabaseFault as error:
            log.warning("Database: %s", error)
            connection.close()

    def reap(self) -> None:
        """Requeue or end what other workers have lost."""
        kinds = {"runs": ledger, "sweeps": sweeps, "captures": captures}
        found = {name: kind.reap() for name, kind in kinds.items()}
        if any(sum(counts.values()) for counts in found.values()):
            log.warning("Reaped: %s", found)

    def announce(self) -> list[str]:
        """Write the row and consume new queues; returns the queues it names."""
        # Where an interpreter is gone, too: runs there end as build_missing.
        rows = [] if self.stopping() else list(registry.ready_here())
        queues = queues_of(rows)
        default = registry.default_installation() if rows else None
        self._to_warm = default.interpreter if default else ""
        tier = sandbox.tier()
        devices = host_gpus.offered(rows)
        record_devices(devices)
        fields = {
            "host": registry.host_name(),
            "queues": queues,
            "devices": devices,
            "tier": tier.tier,
            "sandbox": tier._asdict(),
            "cold": "\n".join(self.cold(rows)),
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
            if queue not in self.consumed and self.consume(queue):
                self.consumed.add(queue)
                log.info("Serving %s", queue)
        return queues

    def cold(self, rows: list[Installation]) -> list[str]:
        """Why checks start cold that could be warm: a line for each build."""
        if not settings.POOL_MEMORY_MIB:
            return []
        reasons = client.cold(execution.pool_socket())
        if reasons is None:
            is_late = time.monotonic() - self._began > keeper.WAIT_S
            return ["no warm pool answers"] if is_late else []
        return [
            f"{row.build_id}: {' '.join(reasons[row.interpreter].split())[:200]}"
            for row in rows
            if row.interpreter in reasons
        ]

    def wake_idle_slots(self, queues: list[str]) -> None:
        """Publish wake-ups for queued runs: theirs may have been lost."""
        assert self.row  # noqa: S101  # announced above
        if not self.row.takes_runs:
            return
        idle = self.slots - fleet.running()[self.worker_name]
        waiting = scheduling.next_waiting(queues, self.row, idle)
        for rows in captures.waiting_in(queues), sweeps.waiting_in(queues):
            more = rows.only("build", "device")[: max(0, idle - len(waiting))]
            waiting += [row.queue for row in more]
        for queue in waiting:
            transport.publish(queue)

    def end_when_drained(self) -> None:
        """Send SIGTERM to this worker once a draining one has no run left."""
        if self.stopping() or not (self.row and self.row.draining):
            return
        if not fleet.running()[self.worker_name]:
            log.info("Drained.")
            os.kill(os.getpid(), signal.SIGTERM)


def expect_one() -> None:
    """Delete the rows of this host's workers that are gone, as one is about to start.

    Those of which an operator wants something wait for the worker to come back.
    """
    wanted = Q(paused=True) | Q(draining=True)
    rows = Worker.objects.filter(~wanted, host=registry.host_name())
    rows.exclude(fleet.is_online()).delete()


def forget_old_workers() -> None:
    """Delete the rows of workers that are gone; those that are paused stay.

    So does the last row of a host with builds: it says since when that is away.
    """
    silent = Worker.objects.filter(last_seen__lt=fleet.ago(FORGET_AFTER), paused=False)
    old = Q(last_seen__lt=fleet.ago(FORGET_WANTED_AFTER))
    same_host = {"host": OuterRef("host")}
    builds = Installation.objects.filter(**same_host, state=Installation.State.READY)
    later = Worker.objects.filter(**same_host, last_seen__gt=OuterRef("last_seen"))
    gone = silent.filter(Q(draining=False) | old)
    gone = gone.filter(Exists(later) | ~Exists(builds))
    # Read first: every worker asks every other second, and writing takes the lock.
    if gone.exists():
        gone.delete()
