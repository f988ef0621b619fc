"""Sweeps: a repro at many values, as one job and as one object of evidence."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Q
from django.urls import reverse

from kb.choices import OUR_ORIGINS
from runner.models.build import Build
from runner.models.job import QueueJob


class Sweep(QueueJob):
    """Cells of a repro on a build (runner.sweeps.queue).

    A worker does it piece by piece, and gives it back between two of them.
    """

    # Leases that lapsed without one more piece; a finished piece sets it to 0.
    lapses = models.PositiveSmallIntegerField(default=0)
    # Why it ended before it was complete; "" where it is.
    reason = models.CharField(max_length=200, blank=True)
    repro_name = models.CharField(max_length=60)
    repro_digest = models.CharField(max_length=71, db_index=True)
    record = models.ForeignKey("kb.Record", models.CASCADE, related_name="sweeps")
    # None of what somebody sent, as of evidence.
    build = models.ForeignKey(
        Build, models.PROTECT, null=True, blank=True, related_name="sweeps"
    )
    # {parameter: {"values": […]} or {"between": [low, high]}} (runner.sweeps.axes),
    # in the order in which `names` has them: a database keeps no order of keys.
    axes = models.JSONField()
    names = models.JSONField()
    trials = models.PositiveSmallIntegerField()
    origin = models.CharField(max_length=40)

    # As `harness.judged_cell` makes them, in the order in which they were done.
    cells = models.JSONField(default=list)
    # What is the same in all of them (harness.Cells.evidence), {} until it is known.
    same = models.JSONField(default=dict)
    # Of the finished object (runner.sweeps.exchange); "" until then.
    digest = models.CharField(max_length=71, blank=True, default="")

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["digest"], condition=~Q(digest=""), name="one_sweep_per_digest"
            ),
        ]

    def get_absolute_url(self) -> str:
        return reverse("sweep-detail", args=[self.id])

    @property
    def build_slug(self) -> str:
        return self.build_id or str(self.same["build"]["slug"])

    @property
    def raw(self) -> str:
        """The version of torch, as torch has it."""
        return self.build.raw if self.build else str(self.same["build"]["raw"])

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
