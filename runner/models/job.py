"""What every row of the queue has: who wants it, who holds it, and how it ended."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.db import models

from kb import wording
from kb.choices import WORKER_DEVICES


class QueueJob(models.Model):
    """A row is its own place in the queue, and is changed as `runner.runs.jobs` says.

    `attempt` is the fence of a worker's writes: a worker that lost its lease writes
    nothing, as the row has another attempt by then.
    """

    class State(models.TextChoices):
        QUEUED = "queued", wording.STATES["queued"].label
        RUNNING = "running", wording.STATES["running"].label
        FINISHED = "finished", wording.STATES["finished"].label
        CANCELLED = "cancelled", wording.STATES["cancelled"].label

    ACTIVE = (State.QUEUED, State.RUNNING)
    # What else a row says while it is held, once that has ended, or it waits again.
    ENDED: ClassVar[dict[str, Any]] = {}
    REQUEUED: ClassVar[dict[str, Any]] = {}

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    device = models.CharField(max_length=4, choices=WORKER_DEVICES)
    protocol = models.PositiveSmallIntegerField()
    requester = models.CharField(max_length=120, blank=True)
    state = models.CharField(
        max_length=9, choices=State.choices, default=State.QUEUED, db_index=True
    )
    attempt = models.PositiveIntegerField(default=0)
    worker = models.CharField(max_length=120, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    cancel_requested = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.id} {self.state}"

    @property
    def queue(self) -> str:
        """Where it waits: for its build, on its class of device."""
        return f"{self.build_id}.{self.device}"  # type: ignore[attr-defined]

    @property
    def is_over(self) -> bool:
        return self.state not in self.ACTIVE

    def is_wanted_by(self, requester: str) -> bool:
        return self.requester == requester

    @property
    def is_cancelling(self) -> bool:
        return self.cancel_requested and not self.is_over
