"""Sweeps: a repro at many values, as one job and as one object of evidence."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import models
from django.db.models import Q
from django.urls import reverse

from kb.choices import OUR_ORIGINS, DeviceClass
from runner.models.build import Build
from runner.models.run import Run


class SweepQuerySet(models.QuerySet["Sweep"]):
    def active(self) -> SweepQuerySet:
        return self.filter(state__in=Run.ACTIVE)


class Sweep(models.Model):
    """Cells of a repro on a build. The row is its own place in the queue.

    As with a run, `attempt` is the fence of a worker's writes (runner.sweeps.queue).
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    record = models.ForeignKey("kb.Record", models.CASCADE, related_name="sweeps")
    repro_name = models.CharField(max_length=60)
    repro_digest = models.CharField(max_length=71, db_index=True)
    build = models.ForeignKey(Build, models.PROTECT, related_name="sweeps")
    device = models.CharField(max_length=4, choices=DeviceClass.choices)
    # {parameter: {"values": […]} or {"between": [low, high]}} (runner.sweeps.axes),
    # in the order in which `names` has them: a database keeps no order of keys.
    axes = models.JSONField()
    names = models.JSONField()
    trials = models.PositiveSmallIntegerField()
    protocol = models.PositiveSmallIntegerField()
    requester = models.CharField(max_length=120, blank=True)
    origin = models.CharField(max_length=40)

    state = models.CharField(
        max_length=9, choices=Run.State.choices, default=Run.State.QUEUED, db_index=True
    )
    attempt = models.PositiveIntegerField(default=0)
    # Leases that lapsed without one more cell; a finished cell sets it to 0.
    lapses = models.PositiveSmallIntegerField(default=0)
    worker = models.CharField(max_length=120, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    cancel_requested = models.BooleanField(default=False)
    # Why it ended without all of its cells; "" where it has them.
    reason = models.CharField(max_length=200, blank=True)

    # As `harness.judged_cell` makes them, in the order in which they were done.
    cells = models.JSONField(default=list)
    # What is the same in all of them (harness.Cells.evidence), {} until it is known.
    same = models.JSONField(default=dict)
    # Of the finished object (runner.sweeps.exchange); "" until then.
    digest = models.CharField(max_length=71, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = SweepQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["digest"], condition=~Q(digest=""), name="one_sweep_per_digest"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.state}"

    def get_absolute_url(self) -> str:
        return reverse("sweep-detail", args=[self.id])

    @property
    def queue(self) -> str:
        return f"{self.build_id}.{self.device}"

    @property
    def is_over(self) -> bool:
        return self.state not in Run.ACTIVE

    @property
    def is_sent(self) -> bool:
        return self.origin not in OUR_ORIGINS

    @property
    def ordered_axes(self) -> dict[str, Any]:
        return {name: self.axes[name] for name in self.names}

    @property
    def done(self) -> dict[tuple[Any, ...], str]:
        """Verdicts by the values, in the order of the axes."""
        return {
            tuple(cell["at"][name] for name in self.names): cell["verdict"]
            for cell in self.cells
        }
