"""State of the queue for the health page, readiness probes and Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import Error as DatabaseFault, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count, Min
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from runner.models import Chore, Device, Run, Worker
from runner.runs import fleet, scheduling, storage

# A run that waits this long while a worker is idle points at a fault.
FORGOTTEN = timedelta(seconds=60)
REAP_LATE = timedelta(seconds=30)
RECENT = timedelta(days=1)


@dataclass(frozen=True)
class QueueRow:
    """Counts of one queue, the creation time of its oldest queued run, its workers."""

    queue: str
    waiting: int
    running: int
    oldest: datetime | None
    workers: int
    idle_slots: int
    # Whether a worker could have taken one for a minute.
    is_forgotten: bool

    @property
    def oldest_s(self) -> float:
        return seconds_since(self.oldest)


@dataclass(frozen=True)
class Health:
    online: list[Worker]
    gpus: list[Device]
    queues: list[QueueRow]
    last_reap: datetime | None
    recent: dict[str, int]
    alarms: list[str | Promise]

    @property
    def oldest(self) -> datetime | None:
        waiting = [row.oldest for row in self.queues if row.oldest]
        return min(waiting, default=None)

    @property
    def waiting(self) -> int:
        return sum(row.waiting for row in self.queues)

    @property
    def running(self) -> int:
        return sum(row.running for row in self.queues)


def seconds_since(moment: datetime | None) -> float:
    return max(0.0, (timezone.now() - moment).total_seconds()) if moment else 0.0


def look() -> Health:
    """The current state of workers, GPUs and queues."""
    online = list(fleet.online_workers())
    reap = Chore.objects.filter(name=Chore.REAP).first()
    queues = list(queue_rows(online))
    last_reap = reap.done_at if reap else None
    return Health(
        online=online,
        gpus=list(Device.objects.all()),
        queues=queues,
        last_reap=last_reap,
        recent=verdicts_since(RECENT),
        alarms=[*storage.alarms(), *alarms(queues, online, last_reap)],
    )


def queue_rows(online: list[Worker]) -> Iterator[QueueRow]:
    """Queues that a worker serves or that have active runs, by name."""
    active = Run.objects.active().order_by()
    counted = active.values_list("build_id", "device", "state").annotate(
        Count("pk"), Min("created_at")
    )
    by_queue: dict[str, dict[str, tuple[int, datetime]]] = {}
    for build, device, state, count, oldest in counted:
        by_queue.setdefault(f"{build}.{device}", {})[state] = (count, oldest)
    busy = fleet.running()
    for queue in sorted(fleet.served_queues(online) | set(by_queue)):
        serving = [row for row in online if queue in row.queues]
        accepting = [row for row in serving if row.takes_runs]
        waiting, oldest = by_queue.get(queue, {}).get(Run.State.QUEUED, (0, None))
        running, _oldest = by_queue.get(queue, {}).get(Run.State.RUNNING, (0, None))
        idle = [row for row in accepting if row.slots > busy[row.name]]
        slots = sum(row.slots - busy[row.name] for row in idle)
        forgotten = any(waiting and has_forgotten(queue, row) for row in idle)
        yield QueueRow(queue, waiting, running, oldest, len(serving), slots, forgotten)


def has_forgotten(queue: str, worker: Worker) -> bool:
    """Whether a run of the queue waits that this worker may take, for a minute now."""
    rows = scheduling.claimable([queue], worker, fleet.free_gpus(worker))
    return rows.filter(created_at__lt=fleet.ago(FORGOTTEN)).exists()


def verdicts_since(span: timedelta) -> dict[str, int]:
    # By verdict, not by state: with the state SQLite would scan every finished run.
    rows = Run.objects.filter(verdict__isnull=False, finished_at__gte=fleet.ago(span))
    counted = rows.order_by().values_list("verdict").annotate(count=Count("*"))
    return {str(verdict): count for verdict, count in counted}


def alarms(
    queues: Iterable[QueueRow], online: list[Worker], last_reap: datetime | None
) -> Iterator[str | Promise]:
    """Problems an operator should look at, in the reader's language."""
    rows = list(queues)
    active = any(row.waiting or row.running for row in rows)
    if not online:
        yield _("No worker is online.")
    late = last_reap is None or timezone.now() - last_reap > REAP_LATE
    if active and late:
        yield _("The check for lost runs has not run lately.")
    for host, reason in cold_hosts(online):
        yield _("Runs on %(host)s start slowly (cold), because %(reason)s") % {
            "host": host,
            "reason": reason,
        }
    for row in rows:
        if row.waiting and not row.workers:
            yield _("Runs wait in %(queue)s, which no worker serves.") % {
                "queue": row.queue
            }
        elif row.is_forgotten:
            yield _(
                "Runs wait in %(queue)s although a worker is idle. Its broker may be "
                "down."
            ) % {"queue": row.queue}


def cold_hosts(online: Iterable[Worker]) -> list[tuple[str, str]]:
    """(host, "build: why"): what starts cold there although it could be warm."""
    found = [(row.host, line) for row in online for line in row.cold_builds]
    return sorted(set(found))  # the workers of a host share a pool


# --- probes ----------------------------------------
def not_ready() -> list[str]:
    """Reasons why this process cannot serve requests; empty if it can."""
    try:
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseFault as error:
        return [f"database: {storage.first_line(error)}"]
    if plan:
        return [f"database: {len(plan)} migrations are not applied"]
    return storage.faults()


# --- Prometheus ----------------------------------------
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def may_scrape(authorization: str) -> bool:
    """Whether metrics may be read: by METRICS_TOKEN, else unless READ_LOGIN is set."""
    if not settings.METRICS_TOKEN:
        return not settings.READ_LOGIN
    expected = f"Bearer {settings.METRICS_TOKEN}"
    return constant_time_compare(authorization, expected)


Samples = Iterable[tuple[str, float]]


def metrics() -> str:
    """The state as Prometheus text, format 0.0.4."""
    lines: list[str] = []
    for name, help_text, samples in gauges(look()):
        lines.append(f"# HELP doesitnan_{name} {help_text}")
        lines.append(f"# TYPE doesitnan_{name} gauge")
        lines.extend(f"doesitnan_{name}{labels} {n:g}" for labels, n in samples)
    return "\n".join(lines) + "\n"


def gauges(state: Health) -> Iterator[tuple[str, str, Samples]]:
    """Name, help text and labelled samples of each gauge."""
    rows = [(label(queue=row.queue), row) for row in state.queues]
    yield "runs_queued", "Runs that wait.", [(k, row.waiting) for k, row in rows]
    yield "runs_running", "Runs that execute.", [(k, row.running) for k, row in rows]
    oldest = [(k, row.oldest_s) for k, row in rows]
    yield "queue_oldest_seconds", "Age of the oldest waiting run.", oldest
    idle = [(k, float(row.idle_slots)) for k, row in rows]
    yield "queue_idle_slots", "Slots that could take a run of the queue now.", idle
    yield "workers_online", "Workers with a heartbeat.", [("", len(state.online))]
    cold = [
        (label(host=host, because=why), 1.0) for host, why in cold_hosts(state.online)
    ]
    yield "cold_builds", "Builds that start cold on a host, and why.", cold
    yield "gpus", "GPUs by state.", gpu_samples(state.gpus)
    recent = [(label(verdict=word), n) for word, n in sorted(state.recent.items())]
    yield "runs_finished_day", "Runs finished within 24 hours, by verdict.", recent
    if state.last_reap:
        age = [("", seconds_since(state.last_reap))]
        yield "reap_age_seconds", "Time since lost runs were looked for.", age
    yield "alarms", "Alarms on the health page.", [("", len(state.alarms))]


def gpu_samples(gpus: Iterable[Device]) -> list[tuple[str, float]]:
    counted = Counter(str(gpu.state) for gpu in gpus)
    return [(label(state=state), counted[state]) for state in Device.State.values]


def label(**names: str) -> str:
    """{name="value"}, escaped as the Prometheus text format requires."""
    pairs = []
    for name, value in names.items():
        text = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        pairs.append(f'{name}="{text}"')
    return "{" + ",".join(pairs) + "}"
