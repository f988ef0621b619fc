"""Pages of torch builds and of the workers that can run them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.db.models import Count

from kb.models import Finding
from kb.results import build_order
from runner import ledger, sandbox
from runner.models import Build, Evidence, Installation, Run, Worker

EVIDENCE_SHOWN = 50


@dataclass(frozen=True)
class BuildRow:
    build: Build
    ready: list[Installation]
    broken: list[Installation]
    workers: list[Worker]
    evidence: int


@dataclass(frozen=True)
class WorkerRow:
    worker: Worker
    online: bool
    running: int
    queued: int

    @property
    def builds(self) -> list[str]:
        return sorted({queue.rpartition(".")[0] for queue in self.worker.queues})


@dataclass(frozen=True)
class BuildList:
    rows: list[BuildRow]
    workers: list[WorkerRow]
    runnable: int
    has_gpu: bool
    tiers: list[str]


@dataclass(frozen=True)
class BuildPage:
    row: BuildRow
    findings: list[Finding]
    evidence: list[Evidence]
    installations: list[Installation]


@dataclass(frozen=True)
class WorkerList:
    rows: list[WorkerRow]
    runs: list[Run]
    has_gpu: bool

    @property
    def online(self) -> int:
        return sum(row.online for row in self.rows)


def build_list() -> BuildList:
    builds = Build.objects.prefetch_related("installations")
    builds = builds.annotate(evidence_count=Count("evidence", distinct=True))
    workers = worker_rows()
    rows = [row_of(build, workers) for build in builds]
    rows.sort(key=lambda row: build_order(row.build.raw, row.build.slug), reverse=True)
    return BuildList(
        rows=rows,
        workers=workers,
        runnable=sum(bool(row.ready) for row in rows),
        has_gpu=any_gpu(workers),
        tiers=list(sandbox.TIERS),
    )


def row_of(build: Build, workers: list[WorkerRow]) -> BuildRow:
    installations = list(build.installations.all())
    ready = [row for row in installations if row.state == Installation.State.READY]
    return BuildRow(
        build=build,
        ready=ready,
        broken=[row for row in installations if row not in ready],
        workers=[
            row.worker for row in workers if row.online and build.slug in row.builds
        ],
        evidence=getattr(build, "evidence_count", 0),
    )


def worker_rows() -> list[WorkerRow]:
    """Online workers first; queued counts what each of them could take."""
    online = set(ledger.online_workers().values_list("name", flat=True))
    queued = Counter(
        f"{build}.{device}"
        for build, device in Run.objects.filter(state=Run.State.QUEUED).values_list(
            "build_id", "device"
        )
    )
    rows = [
        WorkerRow(
            worker=worker,
            online=worker.name in online,
            running=ledger.running_on(worker.name),
            queued=sum(queued[queue] for queue in worker.queues),
        )
        for worker in Worker.objects.all()
    ]
    return sorted(rows, key=lambda row: (not row.online, row.worker.name))


def any_gpu(rows: list[WorkerRow]) -> bool:
    return any(row.online and row.worker.devices for row in rows)


def find_build(slug: str) -> Build | None:
    return Build.objects.prefetch_related("installations").filter(slug=slug).first()


def build_page(build: Build) -> BuildPage:
    findings = Finding.objects.triggers().fresh().filter(build=build.slug)
    return BuildPage(
        row=row_of(build, worker_rows()),
        findings=list(findings.select_related("record").order_by("record_id")),
        evidence=list(build.evidence.select_related("record")[:EVIDENCE_SHOWN]),
        installations=list(build.installations.all()),
    )


def worker_list() -> WorkerList:
    rows = worker_rows()
    runs = Run.objects.select_related("repro__record", "build", "evidence")
    return WorkerList(rows=rows, runs=list(runs[:20]), has_gpu=any_gpu(rows))
