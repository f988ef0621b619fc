"""One run from claim to finish: its checks, its live log, its lease, its evidence."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import Error as DatabaseFault
from django.db import connection

from kb.choices import DeviceClass
from runner import builds, evidence, harness, ledger, sandbox
from runner.live_log import Line, LiveLog
from runner.models import Installation, Run, Worker

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.2
# Set when this process is to end soon: runs are given back to the queue.
stopping = threading.Event()


@dataclass(frozen=True)
class Job:
    """What to run: a source by name, for a record or for none (`--file`)."""

    source: str
    name: str
    record: str | None
    trials: int | None = None


@dataclass(frozen=True)
class Listeners:
    """Who hears of a run while it executes, and who may stop it."""

    phase: Callable[[str, str], None]
    line: Callable[[str, str, str], None] | None = None
    cancelled: Callable[[], bool] | None = None


def run_now(
    job: Job, interpreter: str, listeners: Listeners, *, hide_gpus: bool = False
) -> dict[str, Any]:
    """Drive a repro under an interpreter, here and now; returns its evidence.

    Raises ContractError for a source that keeps no contract and Cancelled once
    `listeners.cancelled()` is true.
    """
    with sandbox.scratch_folder() as folder:
        path = Path(folder) / f"{job.name}.py"
        path.write_bytes(job.source.encode())
        start = sandbox.start_in(
            interpreter,
            str(path),
            hide_gpus=hide_gpus,
            compile_cache=str(Path(folder) / "inductor"),
            on_line=listeners.line,
            cancelled=listeners.cancelled,
        )
        return harness.drive(
            job.source,
            start,
            name=job.name,
            record=job.record,
            trials=job.trials,
            tier=sandbox.tier().tier,
            limits=sandbox.LIMITS,
            origin=evidence.SITE,
            on_event=listeners.phase,
            cancelled=listeners.cancelled,
        )


# --- a run of the queue ----------------------------------------
def drain(worker: str) -> int:
    """Execute runs of the worker's queues until none waits; returns how many."""
    done = 0
    while not stopping.is_set():
        run = ledger.claim(queues_of(worker), worker)
        if run is None:
            break
        log.info("Run %s: attempt %d on %s", run.pk, run.attempt, run.queue)
        execute(run)
        done += 1
    return done


def queues_of(worker: str) -> list[str]:
    """What the worker's row says it serves."""
    row = Worker.objects.filter(pk=worker).first()
    return list(row.queues) if row else []


def execute(run: Run) -> bool:
    """Execute a claimed run and end it. False when its lease was lost on the way."""
    if run.repro.digest != run.repro_digest:
        # The reviewed source changed while the run waited.
        return ledger.finish(run, "refused")
    interpreter = interpreter_for(run)
    if interpreter is None:
        return ledger.finish(run, "build_missing")
    keeper = Keeper(run)
    keeper.start()
    try:
        result = result_of(run, interpreter, keeper)
    finally:
        keeper.stop()
    if keeper.lost:
        log.warning("Run %s: lease lost, nothing written", run.pk)
        return False
    if result is None and keeper.cancel_requested:
        return ledger.cancelled(run)
    if result is None:
        log.info("Run %s: given back, this worker stops", run.pk)
        return ledger.give_back(run)
    return end(run, result)


def end(run: Run, result: dict[str, Any] | str) -> bool:
    """Finish the run. Evidence that is not taken must not look like a lost worker."""
    try:
        ended = ledger.finish(run, result)
    except evidence.EvidenceRefused as error:
        log.error("Run %s: its evidence is refused: %s", run.pk, error)
        result = "refused"
        ended = ledger.finish(run, result)
    log.info("Run %s: %s", run.pk, outcome_of(result) if ended else "lease lost")
    return ended


def result_of(
    run: Run, interpreter: str, keeper: Keeper
) -> dict[str, Any] | str | None:
    """Evidence, the reason of an error that leaves none, or None if stopped."""
    repro = run.repro
    job = Job(repro.source, repro.name, repro.record_id, run.trials)
    listeners = Listeners(keeper.set_phase, keeper.add_line, keeper.should_stop)
    try:
        on_cpu = run.device == DeviceClass.CPU
        body = run_now(job, interpreter, listeners, hide_gpus=on_cpu)
    except harness.Cancelled:
        return None
    except harness.ContractError as error:
        for problem in error.errors:
            keeper.add_line("requirements", "harness", problem)
        return "contract"
    slug = body["build"]["slug"]
    if slug == run.build_id:
        return body
    if slug is None:
        # torch was not imported: there is no build this could be evidence of.
        return str(body["reason"])
    note = f"{interpreter} is torch {slug} now, not {run.build_id}"
    keeper.add_line("requirements", "harness", note)
    mark_installation(run, Installation.State.BROKEN, note)
    return "build_missing"


def interpreter_for(run: Run) -> str | None:
    """This host's interpreter of the run's build; None, noted, when it is gone."""
    installation = builds.installation_for(run.build_id)
    if installation:
        return installation.interpreter
    log.warning("Run %s: no interpreter for %s", run.pk, run.build_id)
    mark_installation(run, Installation.State.MISSING, "The interpreter is gone.")
    return None


def mark_installation(run: Run, state: Installation.State, error: str) -> None:
    """No further run is sent to an installation that does not hold its build."""
    Installation.objects.filter(
        build=run.build_id,
        host=builds.host_name(),
        state=Installation.State.READY,
    ).update(state=state, error=error)


def outcome_of(result: dict[str, Any] | str) -> str:
    if isinstance(result, str):
        return f"error: {result}"
    return ": ".join(filter(None, (result["verdict"], result["reason"])))


class Keeper(threading.Thread):
    """Keeps a run's lease while it executes, and writes its phase and live log.

    `lost` once another attempt may have the run, `cancel_requested` once somebody
    cancelled it; either stops the checks.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(name=f"keeper-{run.pk}", daemon=True)
        self.run_row = run
        self.lost = False
        self.cancel_requested = False
        self._lock = threading.Lock()
        self._lines: list[Line] = []
        self._phase: str | None = None
        self._live_log: LiveLog | None = None
        self._ending = threading.Event()
        self._began = self._renewed = time.monotonic()

    # Called from the thread that drives the checks.
    def set_phase(self, phase: str, text: str) -> None:
        with self._lock:
            self._phase = phase
        self.add_line(phase.partition(" ")[0], "phase", f"{phase} · {text}")

    def add_line(self, check: str, stream: str, text: str) -> None:
        line = Line(check, stream, text, round(time.monotonic() - self._began, 3))
        with self._lock:
            self._lines.append(line)

    def should_stop(self) -> bool:
        return self.lost or self.cancel_requested or stopping.is_set()

    def stop(self) -> None:
        """Write what is left; afterwards nobody renews the lease."""
        self._ending.set()
        self.join()

    # The thread itself.
    def run(self) -> None:
        try:
            while not self._ending.wait(FLUSH_SECONDS):
                self._tick()
            self._tick()
        finally:
            connection.close()

    def _tick(self) -> None:
        try:
            self._flush()
            if time.monotonic() - self._renewed >= ledger.BEAT_SECONDS:
                self._beat()
        except DatabaseFault as error:
            log.warning("Run %s: database: %s", self.run_row.pk, error)
            connection.close()
            self._live_log = None
            unheard = time.monotonic() - self._renewed
            self.lost = self.lost or unheard > ledger.LEASE.total_seconds()

    def _flush(self) -> None:
        with self._lock:
            lines, phase = list(self._lines), self._phase
        if self._live_log is None:
            self._live_log = LiveLog(self.run_row)
        if lines:
            self._live_log.append(lines)
        with self._lock:
            # At once: what fails below must not write them a second time.
            del self._lines[: len(lines)]
        if phase is not None:
            ledger.set_phase(self.run_row, phase)
        with self._lock:
            self._phase = None if self._phase == phase else self._phase

    def _beat(self) -> None:
        asked = time.monotonic()
        beat = ledger.beat(self.run_row)
        self._renewed = asked
        self.lost = self.lost or not beat.alive
        self.cancel_requested = self.cancel_requested or beat.cancel_requested
