"""Pages of torch builds and of the workers that can run them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Prefetch

from kb.models import Finding, Record
from kb.pages.paging import Window, window
from kb.versions.order import build_order
from runner import sandbox
from runner.builds import inventory
from runner.models import (
    Build,
    Device,
    Evidence,
    Installation,
    Run,
    Worker,
)
from runner.runs import fleet

VERDICTS_SHOWN = EVIDENCE_SHOWN = 50
# What the list of latest runs shows of each.
RUN_SHOWN = (
    *("state", "verdict", "reason", "hits", "trials", "parameters", "created_at"),
    *("build", "repro__fidelity", "repro__record__slug"),
)


@dataclass(frozen=True)
class BuildRow:
    build: Build
    ready: list[Installation]
    broken: list[Installation]
    workers: list[Worker]
    evidence: int

    @property
    def git(self) -> str:
        """The first digits of its commit; "" where torch does not tell."""
        return "" if self.build.git == "Unknown" else self.build.git[:12]


@dataclass(frozen=True)
class InstallationRow:
    """An installation and its capabilities from the probe."""

    installation: Installation
    can: dict[str, Any]

    @property
    def disk_mib(self) -> int:
        return self.installation.disk_bytes // inventory.MIB

    @property
    def archs(self) -> str:
        """The compute capabilities of its kernels, from the first to the last."""
        archs = self.can.get("cuda_archs", [])
        return f"{archs[0]}–{archs[-1]}" if archs else ""

    @property
    def compiles(self) -> bool:
        return "compile" in self.can.get("features", [])


@dataclass(frozen=True)
class WorkerRow:
    worker: Worker
    online: bool
    running: int
    queued: int

    @property
    def builds(self) -> list[str]:
        return sorted({queue.rpartition(".")[0] for queue in self.worker.queues})

    @property
    def devices(self) -> list[Any]:
        return ["cpu", *(gpu.get("name") or gpu for gpu in self.worker.devices)]


@dataclass(frozen=True)
class BuildList:
    rows: list[BuildRow]
    workers: list[WorkerRow]
    runnable: int
    has_gpu: bool
    tiers: list[str]
    # Interpreters whose build could never be identified.
    unknown: list[Installation]
    gpus: list[Device]


@dataclass(frozen=True)
class BuildPage:
    row: BuildRow
    findings: list[Finding]
    window: Window
    evidence: list[Evidence]
    installations: list[InstallationRow]


@dataclass(frozen=True)
class WorkerList:
    rows: list[WorkerRow]
    runs: list[Run]
    has_gpu: bool

    @property
    def online(self) -> int:
        return sum(row.online for row in self.rows)


def build_list() -> BuildList:
    evidence = Evidence.objects.order_by().values_list("build")
    counts = dict(evidence.annotate(count=Count("*")))
    workers = worker_rows()
    installed: dict[str | None, list[Installation]] = defaultdict(list)
    for installation in Installation.objects.all():
        installed[installation.build_id].append(installation)
    rows = [
        row_of(build, installed[build.slug], workers, counts.get(build.slug, 0))
        for build in Build.objects.all()
    ]
    rows.sort(key=lambda row: build_order(row.build.raw, row.build.slug), reverse=True)
    return BuildList(
        rows=rows,
        workers=workers,
        runnable=sum(bool(row.ready) for row in rows),
        has_gpu=any_gpu(workers),
        tiers=list(sandbox.TIERS),
        unknown=installed[None],
        gpus=list(Device.objects.all()),
    )


def row_of(
    build: Build,
    installations: list[Installation],
    workers: list[WorkerRow],
    evidence: int,
) -> BuildRow:
    ready = [row for row in installations if row.state == Installation.State.READY]
    return BuildRow(
        build=build,
        ready=ready,
        broken=[row for row in installations if row not in ready],
        workers=[
            row.worker for row in workers if row.online and build.slug in row.builds
        ],
        evidence=evidence,
    )


def worker_rows() -> list[WorkerRow]:
    """Online workers first; `queued` counts the runs that each could take."""
    waiting = Run.objects.filter(state=Run.State.QUEUED).order_by()
    queued = {
        f"{build}.{device}": count
        for build, device, count in waiting.values_list("build_id", "device").annotate(
            count=Count("*")
        )
    }
    running = Run.objects.filter(state=Run.State.RUNNING).order_by()
    busy = Counter(running.values_list("worker", flat=True))
    rows = [
        WorkerRow(
            worker=worker,
            online=worker.online,
            running=busy[worker.name],
            queued=sum(queued.get(queue, 0) for queue in worker.queues),
        )
        for worker in Worker.objects.annotate(online=fleet.is_online())
    ]
    return sorted(rows, key=lambda row: (not row.online, row.worker.name))


def any_gpu(rows: list[WorkerRow]) -> bool:
    return any(row.online and row.worker.devices for row in rows)


def find_build(slug: str) -> Build | None:
    return Build.objects.filter(slug=slug).first()


def build_page(build: Build, page: str) -> BuildPage:
    """`page`: number of the page of verdicts, as in the address."""
    findings = Finding.objects.triggers().fresh().filter(build=build.slug)
    here = window(page, findings.count(), VERDICTS_SHOWN)
    rows = findings.prefetch_related(
        Prefetch("record", Record.objects.only("slug", "title_en", "title_zh"))
    )
    evidence = list(build.evidence.all()[:EVIDENCE_SHOWN])
    installations = list(build.installations.all())
    return BuildPage(
        row=row_of(build, installations, worker_rows(), build.evidence.count()),
        findings=list(rows.order_by("record_id", "repro", "device_class")[here.rows]),
        window=here,
        evidence=evidence,
        installations=[
            InstallationRow(row, inventory.capabilities(row)) for row in installations
        ],
    )


def worker_list() -> WorkerList:
    rows = worker_rows()
    runs = Run.objects.select_related("repro__record").only(*RUN_SHOWN)
    return WorkerList(rows=rows, runs=list(runs[:20]), has_gpu=any_gpu(rows))
