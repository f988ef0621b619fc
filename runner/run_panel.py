"""The panel from which a reader starts a run."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest

from kb.models import Finding, Record, Repro
from kb.results import build_order
from runner import ledger
from runner.models import Build
from runner.run_form import MAX_TRIALS, may_run


@dataclass(frozen=True)
class RunPanel:
    repros: list[Repro]
    builds: list[Build]
    chosen: str
    device: str
    trials: int
    max_trials: int
    timeout_s: float
    memory_mib: int
    may_run: bool
    workers: int
    has_gpu: bool
    newest: Finding | None

    @property
    def needs_gpu(self) -> bool:
        return self.device == "cuda"


def build(record: Record, request: HttpRequest) -> RunPanel | None:
    """None for a record without a repro."""
    repros = list(record.repros.all())
    if not repros:
        return None
    first = repros[0]
    builds = runnable_builds()
    chosen = request.GET.get("torch", "")
    if chosen not in {build.slug for build in builds}:
        chosen = builds[0].slug if builds else ""
    workers = list(ledger.online_workers())
    return RunPanel(
        repros=repros,
        builds=builds,
        chosen=chosen,
        device=first.device,
        trials=first.header.get("trials", 1),
        max_trials=MAX_TRIALS,
        timeout_s=first.header.get("timeout_s", 60),
        memory_mib=first.header.get("memory_mib", 2048),
        may_run=may_run(request),
        workers=len(workers),
        has_gpu=any(worker.devices for worker in workers),
        newest=newest_finding(record, chosen),
    )


def runnable_builds() -> list[Build]:
    """Newest version first."""
    return sorted(
        Build.objects.runnable(),
        key=lambda build: build_order(build.raw, build.slug),
        reverse=True,
    )


def newest_finding(record: Record, slug: str) -> Finding | None:
    rows = [
        row
        for row in record.findings.all()
        if row.is_fresh_verdict and row.build == slug
    ]
    return max(rows, key=lambda row: row.observed_at, default=None)
