"""Bisections: between which two builds a bug comes or goes, as one job."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.urls import reverse

from runner.models.job import LongJob
from runner.models.run import Run


class Bisection(LongJob):
    """Asks one build after the other (runner.bisecting.queue).

    Each question is a run. While it goes on nobody holds this row: its state is
    running, and it has no lease.
    """

    ENDED: ClassVar[dict[str, Any]] = {"phase": ""}

    record = models.ForeignKey("kb.Record", models.CASCADE, related_name="bisections")
    # The builds that were named.
    good = models.CharField(max_length=61)
    bad = models.CharField(max_length=61)
    # Builds, or releases to install, from the older end; and what that one is.
    builds = models.JSONField()
    first = models.CharField(max_length=4)
    # Whether releases that are not here are installed, and which ones could be; null
    # until the index was asked.
    install = models.BooleanField(default=False)
    offered = models.JSONField(null=True, blank=True)
    # The build of each release that was installed for this.
    installed = models.JSONField(default=dict)
    # "install 2.5.0" while a worker does that, or waits for another to be installed.
    phase = models.CharField(max_length=80, blank=True)
    # The question that is being asked.
    run = models.ForeignKey(
        Run, models.SET_NULL, null=True, blank=True, related_name="bisections"
    )
    # In the order in which they counted (runner.bisecting.steps).
    steps = models.JSONField(default=list)
    # A `runner.bisecting.search.Turn` once it is found; where an end answers otherwise
    # than it was said to, that build and its answer. {} until then.
    found = models.JSONField(default=dict)

    class Meta:
        ordering = ["-created_at"]

    @property
    def unknown_between(self) -> list[str]:
        """Builds between the two that were found, without an answer."""
        return list(self.found.get("unknown", []))

    def get_absolute_url(self) -> str:
        return reverse("bisection-detail", args=[self.id])
