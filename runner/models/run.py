"""Runs and their logs."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from kb.choices import Verdict
from kb.models import Repro
from runner.models.build import Build
from runner.models.evidence import Evidence
from runner.models.job import QueueJob
from runner.parameters import MAX_CHARS, query_of, settings_of


class RunQuerySet(models.QuerySet["Run"]):
    def active(self) -> RunQuerySet:
        return self.filter(state__in=Run.ACTIVE)

    def wanted(self) -> RunQuerySet:
        """Active ones that nobody has cancelled: these may be joined."""
        return self.active().filter(cancel_requested=False)


class Run(QueueJob):
    """One execution of a repro on a build. The row is the queue (runs.ledger)."""

    ENDED: ClassVar[dict[str, Any]] = {"phase": ""}
    REQUEUED: ClassVar[dict[str, Any]] = {"phase": "", "gpu": ""}

    class Priority(models.IntegerChoices):
        CLICK = 0, _("click")
        REVERIFY = 1, _("re-verify")
        MATRIX = 2, _("matrix")

    repro = models.ForeignKey(Repro, models.CASCADE, related_name="runs")
    # The digest asked for: a later edition of the repro does not change it.
    repro_digest = models.CharField(max_length=71)
    build = models.ForeignKey(Build, models.PROTECT, related_name="runs")
    # Other values than those that were reviewed (runner.parameters); "" for these.
    parameters = models.CharField(
        max_length=MAX_CHARS, blank=True, default="", db_default=""
    )
    trials = models.PositiveSmallIntegerField()
    priority = models.PositiveSmallIntegerField(
        choices=Priority.choices, default=Priority.CLICK
    )
    # Of each GPU; 9.0 is 900. From the repro's header (runner.runs.fleet.requirements).
    min_capability = models.PositiveIntegerField(default=0, db_default=0)
    min_memory_mib = models.PositiveIntegerField(default=0, db_default=0)
    min_devices = models.PositiveSmallIntegerField(default=1, db_default=1)

    phase = models.CharField(max_length=80, blank=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    # UUIDs of the GPUs that the attempt holds, joined by commas; "" on the CPU.
    gpu = models.CharField(max_length=400, blank=True)

    # Null, not empty: the contract's words while there is no verdict.
    verdict = models.CharField(  # noqa: DJ001
        max_length=14, choices=Verdict.choices, null=True, blank=True
    )
    reason = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001
    hits = models.PositiveIntegerField(null=True, blank=True)
    evidence = models.ForeignKey(
        Evidence, models.PROTECT, null=True, blank=True, related_name="runs"
    )

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["state", "priority", "created_at"]),
            models.Index(fields=["requester", "created_at"]),
            models.Index(fields=["build", "device", "finished_at"]),
            models.Index(fields=["created_at"]),
            models.Index(fields=["finished_at"]),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["repro_digest", "build", "device", "protocol", "parameters"],
                # Beside one that is on its way out, a new click has its own.
                condition=Q(state__in=["queued", "running"], cancel_requested=False),
                name="one_active_run",
            ),
            models.CheckConstraint(
                condition=Q(state="finished", verdict__isnull=False)
                | (~Q(state="finished") & Q(verdict__isnull=True)),
                name="verdict_only_when_finished",
            ),
            models.CheckConstraint(
                condition=Q(state="running", lease_until__isnull=False)
                | (~Q(state="running") & Q(lease_until__isnull=True)),
                name="lease_only_while_running",
            ),
            models.UniqueConstraint(
                fields=["gpu"],
                condition=Q(state="running") & ~Q(gpu=""),
                name="one_run_per_gpu",
            ),
            models.UniqueConstraint(
                fields=["evidence"],
                condition=Q(evidence__isnull=False),
                name="one_run_per_evidence",
            ),
        ]

    def get_absolute_url(self) -> str:
        return reverse("run-detail", args=[self.id]) + query_of(self.parameters)

    def is_wanted_by(self, requester: str) -> bool:
        is_own = super().is_wanted_by(requester)
        return is_own or self.joiners.filter(requester=requester).exists()

    @property
    def settings(self) -> list[str]:
        """The values that are not the reviewed ones: length=704."""
        return settings_of(self.parameters)


class Joiner(models.Model):
    """Who waits for a run beside its requester (runs.joining); "" is the site."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="joiners")
    requester = models.CharField(max_length=120, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "requester"], name="one_interest")
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.requester}"


class LogChunk(models.Model):
    """Some lines of a run's live log, in order."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="log")
    seq = models.PositiveIntegerField()
    attempt = models.PositiveSmallIntegerField()
    check_name = models.CharField(max_length=80)
    stream = models.CharField(max_length=8)  # stdout, stderr, harness
    text = models.TextField()
    at = models.FloatField(help_text="seconds since the attempt began")

    class Meta:
        ordering = ["seq"]
        constraints = [
            models.UniqueConstraint(fields=["run", "seq"], name="one_log_line")
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.seq}"
