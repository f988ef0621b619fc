"""Keeps the lease of a long job while a worker does one piece after the other."""

from __future__ import annotations

import logging
import threading

from django.db import Error as DatabaseFault, connection

from runner.models.job import LongJob
from runner.runs import jobs, retries
from runner.worker import execution

log = logging.getLogger(__name__)


class LeaseKeeper(threading.Thread):
    """Renews a lease, and hears of a cancellation.

    `lost`: another attempt may have the job. Either stops the piece at hand.
    """

    def __init__(self, job: LongJob) -> None:
        super().__init__(name=f"keeper-{job.pk}", daemon=True)
        self.job = job
        self.lost = False
        self.cancel_requested = False
        self._ending = threading.Event()

    def should_stop(self) -> bool:
        return self.lost or self.cancel_requested or execution.stopping.is_set()

    def stop(self) -> None:
        self._ending.set()
        self.join()

    def run(self) -> None:
        try:
            while not self._ending.wait(retries.BEAT_SECONDS):
                self._beat()
        finally:
            connection.close()

    def _beat(self) -> None:
        try:
            beat = jobs.beat(self.job)
        except DatabaseFault as error:
            log.warning("%s: database: %s", self.job, error)
            connection.close()
            return
        self.lost = self.lost or not beat.alive
        self.cancel_requested = self.cancel_requested or beat.cancel_requested
