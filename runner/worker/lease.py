"""Keeps the lease of a job while a worker is at it, and writes the log of a run."""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import Self

from django.db import Error as DatabaseFault, connection

from runner.models import Run
from runner.models.job import QueueJob
from runner.runs import jobs, ledger, live_log, retries
from runner.runs.live_log import Line, LiveLog

log = logging.getLogger(__name__)

TICK_SECONDS = 0.2
# Set when this process is about to end: its jobs go back to the queue.
stopping = threading.Event()


class LeaseKeeper(threading.Thread):
    """Renews a job's lease while it executes, for at most `deadline_s`.

    `lost`: another attempt may have the job. `cancel_requested`: a user cancelled it.
    Either stops what is under way.
    """

    def __init__(self, job: QueueJob, deadline_s: float = math.inf) -> None:
        super().__init__(name=f"keeper-{job.pk}", daemon=True)
        self.job = job
        self.lost = False
        self.cancel_requested = False
        self._ending = threading.Event()
        self._began = self._renewed = time.monotonic()
        self._deadline_s = deadline_s

    def should_stop(self) -> bool:
        return self.lost or self.cancel_requested or stopping.is_set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Write what is left and stop renewing the lease."""
        self._ending.set()
        self.join()

    def run(self) -> None:
        try:
            while not self._ending.wait(TICK_SECONDS):
                self.tick()
            self.tick()
        finally:
            # Where it ended by an error nobody renews the lease any more.
            self.lost = self.lost or not self._ending.is_set()
            connection.close()

    def tick(self) -> None:
        try:
            self.write()
            if time.monotonic() - self._began > self._deadline_s:
                self.lost = True  # not renewed: another attempt may start
            elif time.monotonic() - self._renewed >= retries.BEAT_SECONDS:
                self.beat()
        except DatabaseFault as error:
            log.warning("%s: database: %s", self.job, error)
            connection.close()
            since_renewal = time.monotonic() - self._renewed
            self.lost = self.lost or since_renewal > retries.LEASE.total_seconds()

    def write(self) -> None:
        """Write down what there is beside the lease."""

    def beat(self) -> None:
        sent_at = time.monotonic()
        beat = jobs.beat(self.job)
        self._renewed = sent_at
        self.lost = self.lost or not beat.alive
        self.cancel_requested = self.cancel_requested or beat.cancel_requested


class RunKeeper(LeaseKeeper):
    """Also writes a run's phase and live log."""

    def __init__(self, run: Run) -> None:
        super().__init__(run, retries.deadline_s(run))
        self.run_row = run
        self._lock = threading.Lock()
        self._lines: list[Line] = []
        self._phase: str | None = None
        self._live_log: LiveLog | None = None

    # --- called by the thread that drives the checks
    def set_phase(self, phase: str, text: str) -> None:
        with self._lock:
            self._phase = phase
        self._add(live_log.phase_line(phase, text, self._elapsed_s()))

    def add_line(self, check: str, stream: str, text: str) -> None:
        self._add(Line(check, stream, text, self._elapsed_s()))

    def _add(self, line: Line) -> None:
        with self._lock:
            self._lines.append(line)

    def _elapsed_s(self) -> float:
        return round(time.monotonic() - self._began, 3)

    # --- called by its own thread
    def write(self) -> None:
        try:
            self._flush()
        except DatabaseFault:
            self._live_log = None  # begins anew where the database has it
            raise

    def _flush(self) -> None:
        with self._lock:
            lines, phase = list(self._lines), self._phase
        if self._live_log is None:
            self._live_log = LiveLog(self.run_row)
        if lines:
            self._live_log.append(lines)
        with self._lock:
            # Before anything else can fail: they must not be written twice.
            del self._lines[: len(lines)]
        if phase is not None:
            ledger.set_phase(self.run_row, phase)
        with self._lock:
            self._phase = None if self._phase == phase else self._phase
