"""Executes runs: from the claim over checks, live log and lease to the evidence."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings

from kb.choices import DeviceClass
from portable import harness
from runner import parameters, sandbox
from runner.builds import compile_cache, compile_seed, registry
from runner.evidence import store
from runner.gpus import gpu_run
from runner.gpus.gpu_run import HostGpus
from runner.gpus.telemetry import Problem
from runner.models import Installation, Run
from runner.pool import client, keeper as pool_keeper, start
from runner.runs import host_gpus, jobs, ledger
from runner.sandbox.coldstart import cache_owner, needs_of
from runner.worker.lease import RunKeeper

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """The source of a repro, its name, and its record (None: `run_repro --file`).

    `parameters`: values that are not the defaults.
    """

    source: str
    name: str
    record: str | None
    trials: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Listeners:
    """Callbacks during a run: (phase, text), (check, stream, text), is it cancelled."""

    phase: Callable[[str, str], None]
    line: Callable[[str, str, str], None] | None = None
    cancelled: Callable[[], bool] | None = None


def run_now(
    job: Job,
    interpreter: str,
    listeners: Listeners,
    *,
    on_cpu: bool = False,
    gpus: HostGpus | None = None,
) -> dict[str, Any]:
    """Run a repro under an interpreter in this process; returns its evidence.

    `gpus`: those it may use. Raises ContractError for a source that breaks the contract
    and Cancelled once `listeners.cancelled()` is true.
    """
    with prepared(job, interpreter, listeners) as start_checks:
        return gpu_run.drive(
            job.source,
            start_checks,
            gpus or host_gpus.for_run(say=partial(listeners.phase, "requirements")),
            on_cpu=on_cpu,
            cancelled=listeners.cancelled,
            name=job.name,
            record=job.record,
            trials=job.trials,
            parameters=job.parameters,
            tier=sandbox.tier().tier,
            limits=sandbox.limits(interpreter),
            origin=store.SITE,
            on_event=listeners.phase,
        )


@contextmanager
def prepared(
    job: Job, interpreter: str, listeners: Listeners
) -> Iterator[gpu_run.StartWith]:
    """The job's source in a folder, with what starts its checks there."""
    with sandbox.scratch_folder() as scratch:
        folder = Path(scratch)
        path = folder / f"{job.name}.py"
        path.write_bytes(job.source.encode())
        with cache_of(job, interpreter, folder, listeners) as cache:
            yield partial(start_with, job, interpreter, path, cache, listeners)


def start_with(
    job: Job,
    interpreter: str,
    path: Path,
    cache: Mapping[str, str],
    listeners: Listeners,
    visible: str | None,
    lock_fds: Sequence[int],
) -> harness.Start:
    """A Start for checks of the job on these GPUs, see `gpu_run.StartWith`."""
    cold = sandbox.start_in(
        interpreter,
        str(path),
        gpus=visible,
        hold_fds=lock_fds,
        on_line=listeners.line,
        cancelled=listeners.cancelled,
        **cache,
    )
    keeps_cache = job.record is not None
    return start.WarmStart(pool_socket(), cold, keeps_cache)


def warm_up(interpreter: str) -> bool:
    """Have the pool start this build's parent; False where there is no pool yet."""
    if not interpreter or not settings.POOL_MEMORY_MIB:
        return True
    key = start.parent_key(sandbox.start_in(interpreter, ""))
    return client.warm(pool_socket(), key)


@contextmanager
def cache_of(
    job: Job, interpreter: str, folder: Path, listeners: Listeners
) -> Iterator[dict[str, str]]:
    """Where torch.compile keeps what it builds, as `sandbox.start_in` takes it.

    Kept between runs of a reviewed repro only; it begins with a copy of a seed.
    """
    source = job.source.encode()
    if job.record is None or "compiler" not in needs_of(source):
        yield {"compile_cache": str(folder / "inductor")}
        return
    root = settings.DATA_DIR / "inductor"
    seed = ""
    if harness.parse_header(job.source).device == DeviceClass.CPU:
        make = partial(sow, interpreter, listeners)
        seed = compile_seed.ready(root, interpreter, make)
    with compile_cache.locked_folder(root, interpreter, job.source) as cache:
        owner = cache_owner(sandbox.start_in(interpreter, "").layers, cache)
        compile_seed.plant(seed, cache, owner)
        caches = str(Path(cache).parents[1])
        yield {
            "compile_cache": cache,
            "compile_seed": seed,
            "compile_caches": caches,
        }


def sow(interpreter: str, listeners: Listeners, files: str) -> bool:
    """Compile what all programs need into `files`; False where that build cannot.

    Raises Cancelled.
    """
    listeners.phase("requirements", "compiles what all repros share, once for a build")
    header = harness.parse_header(compile_seed.PROGRAM)
    with sandbox.scratch_folder() as scratch:
        path = Path(scratch) / "seed.py"
        path.write_text(compile_seed.PROGRAM)
        start = sandbox.start_in(
            interpreter,
            str(path),
            gpus="",
            compile_cache=files,
            cancelled=listeners.cancelled,
        )
        report = start(harness.check_spec(header, "requirements"))
    if listeners.cancelled and listeners.cancelled():
        raise harness.Cancelled
    found = harness.reported_observations(report)
    return report.failure is None and found.get("compiler") is True


def pool() -> AbstractContextManager[None]:
    """A warm pool for the runs of a command: a worker's, else one of its own."""
    return pool_keeper.running(pool_socket(), settings.POOL_MEMORY_MIB)


def pool_socket() -> str:
    """Path of the socket of this site's warm pool."""
    return str(settings.DATA_DIR / "pool.sock")


# --- a run of the queue ----------------------------------------
def execute(run: Run) -> bool:
    """Execute a claimed run and end it. False when its lease was lost meanwhile."""
    if run.repro.digest != run.repro_digest:
        # The reviewed source changed while the run waited.
        return ledger.finish(run, "refused")
    installation = jobs.retry(partial(installation_for, run))
    if installation is None:
        return ledger.finish(run, "build_missing")
    with RunKeeper(run) as keeper:
        result = result_of(run, installation, keeper)
    if keeper.lost:
        log.warning("Run %s: lease lost, nothing written", run.pk)
        return False
    if result is None:
        log.info("Run %s: given back, cancelled or this worker stops", run.pk)
        return jobs.give_back(run)
    return end(run, result)


def end(run: Run, result: dict[str, Any] | str) -> bool:
    """Finish the run, as refused where its evidence is; else it would count as lost."""
    try:
        ended = ledger.finish(run, result)
    except store.EvidenceRefused as error:
        log.error("Run %s: its evidence is refused: %s", run.pk, error)
        result = "refused"
        ended = ledger.finish(run, result)
    log.info("Run %s: %s", run.pk, outcome_of(result) if ended else "lease lost")
    return ended


def result_of(
    run: Run, installation: Installation, keeper: RunKeeper
) -> dict[str, Any] | str | None:
    """Evidence, the reason of an error without evidence, or None if stopped."""
    repro, interpreter = run.repro, installation.interpreter
    values = parameters.values_of(run.parameters)
    job = Job(repro.source, repro.name, repro.record_id, run.trials, values)
    listeners = Listeners(keeper.set_phase, keeper.add_line, keeper.should_stop)

    def note(problem: Problem) -> None:
        keeper.add_line(
            "requirements", "harness", f"GPU {problem.uuid}: {problem.text}"
        )
        host_gpus.quarantine(problem, run)

    gpus = host_gpus.for_run(run.gpu, partial(keeper.set_phase, "requirements"), note)
    try:
        on_cpu = run.device == DeviceClass.CPU
        body = run_now(job, interpreter, listeners, on_cpu=on_cpu, gpus=gpus)
    except harness.Cancelled:
        return None
    except harness.ContractError as error:
        for text in error.errors:
            keeper.add_line("requirements", "harness", text)
        return "contract"
    except OSError as error:  # As a full disk has it; checks tell theirs themselves.
        keeper.add_line("requirements", "harness", str(error))
        return "refused"
    if body["reason"] in gpu_run.VOIDING_REASONS:
        return str(body["reason"])
    return evidence_of(run, installation, body, keeper)


def evidence_of(
    run: Run, installation: Installation, body: dict[str, Any], keeper: RunKeeper
) -> dict[str, Any] | str:
    """The evidence if it is of the run's build, else an error reason."""
    slug = body["build"]["slug"]
    if slug == run.build_id:
        return body
    if slug is None:
        # torch was not imported: there is no build this could be evidence of.
        return str(body["reason"])
    note = f"{installation.interpreter} is torch {slug} now, not {run.build_id}"
    keeper.add_line("requirements", "harness", note)
    mark(installation, Installation.State.BROKEN, note)
    return "build_missing"


def installation_for(run: Run) -> Installation | None:
    """This host's installation for the run; None, marked missing, when it is gone."""
    stack = run.repro.header.get("stack") or {}
    installation = registry.installation_for(run.build_id, stack)
    if installation:
        return installation
    log.warning("Run %s: no interpreter for %s", run.pk, run.build_id)
    for row in registry.vanished(run.build_id):
        mark(row, Installation.State.MISSING, "The interpreter is gone.")
    return None


def mark(installation: Installation, state: Installation.State, error: str) -> None:
    """Mark a ready installation as unusable, so that no further run is sent to it."""
    Installation.objects.filter(
        pk=installation.pk, state=Installation.State.READY
    ).update(state=state, error=error)


def outcome_of(result: dict[str, Any] | str) -> str:
    if isinstance(result, str):
        return f"error: {result}"
    return ": ".join(filter(None, (result["verdict"], result["reason"])))
