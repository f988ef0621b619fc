"""Calls that strangers sent, and their runs: no list, finding or count has them."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q
from django.urls import reverse

from kb import wording
from runner.models.build import Build
from runner.models.job import QueueJob


class Capture(models.Model):
    """One call as data. Its id, 122 random bits, is its only address."""

    KEPT = timedelta(days=7)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    digest = models.CharField(max_length=64, db_index=True)
    # As it was sent: what is run, and what may be fetched again.
    text = models.TextField()
    requester = models.CharField(max_length=120, blank=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    def __str__(self) -> str:
        return self.digest[:12]

    def get_absolute_url(self) -> str:
        return reverse("capture-detail", args=[self.id])

    @property
    def kept_until(self) -> datetime:
        return self.created_at + self.KEPT


class CaptureRun(QueueJob):
    """A capture on a build: a fresh process, whose outcome alone is kept.

    Without its capture, which was deleted, it only counts for its requester's quota.
    """

    class Outcome(models.TextChoices):
        NAN = "nan", wording.CAPTURES["nan"].text.label
        INF = "inf", wording.CAPTURES["inf"].text.label
        FINITE = "finite", wording.CAPTURES["finite"].text.label
        NOT_APPLICABLE = "not_applicable", wording.CELLS["not_applicable"].label
        ERROR = "error", wording.CELLS["error"].label

    capture = models.ForeignKey(
        Capture, models.SET_NULL, null=True, related_name="runs"
    )
    build = models.ForeignKey(Build, models.PROTECT, related_name="+")
    outcome = models.CharField(max_length=14, choices=Outcome.choices, blank=True)
    # Of an error, as a run has them; "" else.
    reason = models.CharField(max_length=200, blank=True)
    # What the child said (runner.captures.outcome).
    found = models.JSONField(default=dict)

    class Meta:
        ordering = ["created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["capture", "build"],
                condition=Q(state__in=["queued", "running"]),
                name="one_active_run_of_a_capture",
            )
        ]
