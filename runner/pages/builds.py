"""Pages of torch builds and of the workers that can run them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from django.db.models import Count, Exists, OuterRef, Prefetch

from kb.choices import SymptomClass, Verdict
from kb.models import Finding, Flip, Record
from kb.search.ranking.filters import MODEL
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
from runner.pages.environment_facts import commit_of
from runner.runs import fleet

BUG = Verdict.BUG_PRESENT
# The folds of a build's page: what was seen and, of a bug, its symptom.
FOLDS = [(str(BUG), symptom) for symptom in SymptomClass.values]
FOLDS += [(seen, "") for seen in (*Verdict.values, MODEL) if seen != BUG]
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
        return commit_of(self.build.git)[:12]


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
    online: int
    runnable: int
    has_gpu: bool
    tiers: list[str]
    # Interpreters whose build could never be identified.
    unknown: list[Installation]
    gpus: list[Device]


class Fold(NamedTuple):
    """Records of which the same is known, each with its verdicts on the build."""

    seen: str
    symptom: str
    records: list[list[Finding]]


@dataclass(frozen=True)
class BuildPage:
    """`turned`: where it differs from the build tested before; the oldest has none."""

    row: BuildRow
    turned: list[Flip]
    is_oldest: bool
    folds: list[Fold]
    installations: list[InstallationRow]

    @property
    def tally(self) -> list[tuple[str, int]]:
        """How many records there are with each verdict."""
        alike = groupby(self.folds, key=attrgetter("seen"))
        return [(seen, sum(len(fold.records) for fold in row)) for seen, row in alike]


@dataclass(frozen=True)
class WorkerList:
    rows: list[WorkerRow]
    online: int
    runs: list[Run]
    has_gpu: bool


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
        online=count_online(workers),
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
    busy = fleet.running()
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


def count_online(rows: list[WorkerRow]) -> int:
    return sum(row.online for row in rows)


def any_gpu(rows: list[WorkerRow]) -> bool:
    return any(row.online and row.worker.devices for row in rows)


def build_page(build: Build) -> BuildPage:
    records = Record.objects.only("slug", "title_en", "title_zh", "symptom_class")
    listed = Prefetch("record", records)
    findings = Finding.objects.triggers().fresh().filter(build=build.slug)
    findings = findings.order_by("record_id", "repro", "device_class")
    flips = Flip.objects.filter(build=build.slug).order_by("-kind", "record_id")
    installations = list(build.installations.all())
    return BuildPage(
        row=row_of(build, installations, worker_rows(), build.evidence.count()),
        turned=list(flips.prefetch_related(listed)),
        is_oldest=is_oldest(build),
        folds=folds(findings.prefetch_related(listed).by_record().values()),
        installations=[
            InstallationRow(row, inventory.capabilities(row)) for row in installations
        ],
    )


def is_oldest(build: Build) -> bool:
    """Whether no build with a version before its own was tested."""
    findings = Finding.objects.triggers().fresh().filter(build=OuterRef("slug"))
    tested = Build.objects.filter(Exists(findings)).values_list("raw", "slug")
    here = build_order(build.raw, build.slug)
    return all(build_order(*one) >= here for one in tested)


def folds(records: Iterable[list[Finding]]) -> list[Fold]:
    """Of the records with their verdicts: bugs by symptom, then the others."""
    found = defaultdict(list)
    for rows in records:
        verdicts = {row.verdict for row in rows if not row.is_model}
        # The bug is there where any repro shows it.
        seen = min(verdicts, key=Verdict.values.index, default=MODEL)
        symptom = rows[0].record.symptom_class if seen == BUG else ""
        found[seen, symptom].append(rows)
    return [Fold(*key, found[key]) for key in FOLDS if key in found]


def worker_list() -> WorkerList:
    rows = worker_rows()
    runs = Run.objects.select_related("repro__record").only(*RUN_SHOWN)
    return WorkerList(rows, count_online(rows), list(runs[:20]), any_gpu(rows))
