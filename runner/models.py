"""Torch builds, where they are installed, runs of repros on them, and evidence.

A new column has a default in the database, too (`db_default`): while a site is
upgraded, workers of the old checkout still write rows that do not know it.
"""

from __future__ import annotations

import uuid

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from kb.choices import DeviceClass, Verdict
from kb.models import Repro
from kb.records.facts import BUILD_SLUG

SLUG = RegexValidator(rf"^{BUILD_SLUG}$")


class BuildQuerySet(models.QuerySet["Build"]):
    def runnable(self) -> BuildQuerySet:
        """Builds with a working installation somewhere."""
        return self.filter(installations__state=Installation.State.READY).distinct()


class Build(models.Model):
    """The identity of a torch: what results are about. Known also without a host."""

    slug = models.CharField(primary_key=True, max_length=61, validators=[SLUG])
    raw = models.CharField(max_length=120)
    dist = models.CharField(max_length=120, blank=True)
    git = models.CharField(max_length=40, blank=True)
    cuda = models.CharField(max_length=20, blank=True)
    hip = models.CharField(max_length=40, blank=True)
    cudnn = models.CharField(max_length=20, blank=True)
    python = models.CharField(max_length=10, blank=True)
    platform = models.CharField(max_length=40, blank=True)
    first_seen = models.DateTimeField(auto_now_add=True)

    objects = BuildQuerySet.as_manager()

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug

    def get_absolute_url(self) -> str:
        return reverse("build-detail", args=[self.slug])


class Installation(models.Model):
    """A build on a host: an interpreter that imports it."""

    class State(models.TextChoices):
        READY = "ready", _("ready")
        BROKEN = "broken", _("broken")
        MISSING = "missing", _("interpreter missing")

    build = models.ForeignKey(
        Build, models.CASCADE, null=True, blank=True, related_name="installations"
    )
    host = models.CharField(max_length=120)
    interpreter = models.CharField(max_length=500)
    # Made by us under BUILDS_DIR; a user's own environment is never written to.
    managed = models.BooleanField(default=False)
    state = models.CharField(max_length=8, choices=State.choices)
    error = models.TextField(blank=True)
    packages = models.JSONField(default=dict)
    facts = models.JSONField(default=dict)
    disk_bytes = models.PositiveBigIntegerField(default=0)
    probed_at = models.DateTimeField()

    class Meta:
        ordering = ["host", "build_id", "interpreter"]
        constraints = [
            models.UniqueConstraint(
                fields=["host", "interpreter"], name="one_installation"
            )
        ]

    def __str__(self) -> str:
        return f"{self.build_id} at {self.interpreter}"


class Worker(models.Model):
    """What a worker process group says of itself, renewed by heartbeat."""

    name = models.CharField(primary_key=True, max_length=120)
    host = models.CharField(max_length=120)
    queues = models.JSONField(default=list)
    devices = models.JSONField(default=list)
    tier = models.CharField(max_length=1, blank=True)
    # What holds its runs and what does not: runner.sandbox.Tier as JSON.
    sandbox = models.JSONField(default=dict)
    slots = models.PositiveSmallIntegerField(default=1)
    # By an operator: it finishes what it has and claims nothing more.
    paused = models.BooleanField(default=False)
    # The same, and then it ends itself.
    draining = models.BooleanField(default=False, db_default=False)
    # runner.harness.PROTOCOL of its checkout: it claims no runs of another.
    protocol = models.PositiveSmallIntegerField(default=0, db_default=0)
    started_at = models.DateTimeField()
    last_seen = models.DateTimeField()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Device(models.Model):
    """A GPU of a host, known by its UUID; written by the workers that see it."""

    class State(models.TextChoices):
        READY = "ready", _("ready")
        PAUSED = "paused", _("paused")
        QUARANTINED = "quarantined", _("quarantined")

    host = models.CharField(max_length=120)
    uuid = models.CharField(max_length=80)
    name = models.CharField(max_length=120, blank=True)
    capability = models.CharField(max_length=10, blank=True)
    memory_mib = models.PositiveIntegerField(default=0)
    driver = models.CharField(max_length=40, blank=True)
    # Quarantined by a run that left it unhealthy; only an operator lifts it.
    state = models.CharField(max_length=11, choices=State.choices, default=State.READY)
    reason = models.TextField(blank=True)
    last_seen = models.DateTimeField()

    class Meta:
        ordering = ["host", "uuid"]
        constraints = [
            models.UniqueConstraint(fields=["host", "uuid"], name="one_device")
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.uuid} on {self.host}"


class Evidence(models.Model):
    """One immutable evidence object (contract §5), addressed by its digest."""

    digest = models.CharField(primary_key=True, max_length=71)
    record = models.ForeignKey(
        "kb.Record", models.SET_NULL, null=True, related_name="evidence"
    )
    build = models.ForeignKey(Build, models.PROTECT, related_name="evidence")
    repro_name = models.CharField(max_length=60)
    repro_digest = models.CharField(max_length=71, db_index=True)
    device_class = models.CharField(max_length=4, choices=DeviceClass.choices)
    verdict = models.CharField(max_length=14, choices=Verdict.choices)
    origin = models.CharField(max_length=40)
    started_at = models.DateTimeField()
    added_at = models.DateTimeField(auto_now_add=True)
    body = models.JSONField()
    # Whether it was new to the call that returned it (runner.evidence.exchange).
    created = False

    class Meta:
        ordering = ["-started_at", "digest"]
        verbose_name_plural = "evidence"
        indexes = [models.Index(fields=["build", "started_at"])]

    def __str__(self) -> str:
        return self.digest

    def get_absolute_url(self) -> str:
        return reverse("evidence-detail", args=[self.short])

    @property
    def short(self) -> str:
        """The first twelve hex digits, as in addresses."""
        return self.digest.removeprefix("sha256:")[:12]


class RunQuerySet(models.QuerySet["Run"]):
    def active(self) -> RunQuerySet:
        return self.filter(state__in=Run.ACTIVE)


class Run(models.Model):
    """One execution of a repro on a build. The row is the queue (runs.ledger)."""

    class State(models.TextChoices):
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        FINISHED = "finished", _("finished")
        CANCELLED = "cancelled", _("cancelled")

    class Priority(models.IntegerChoices):
        CLICK = 0, _("click")
        REVERIFY = 1, _("re-verify")
        MATRIX = 2, _("matrix")

    ACTIVE = (State.QUEUED, State.RUNNING)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    repro = models.ForeignKey(Repro, models.CASCADE, related_name="runs")
    # The digest asked for: a later edition of the repro does not change it.
    repro_digest = models.CharField(max_length=71)
    build = models.ForeignKey(Build, models.PROTECT, related_name="runs")
    device = models.CharField(max_length=4, choices=DeviceClass.choices)
    trials = models.PositiveSmallIntegerField()
    protocol = models.PositiveSmallIntegerField()
    priority = models.PositiveSmallIntegerField(
        choices=Priority.choices, default=Priority.CLICK
    )
    requester = models.CharField(max_length=120, blank=True)
    # Of each GPU; 9.0 is 900. From the repro's header (runner.runs.fleet.requirements).
    min_capability = models.PositiveIntegerField(default=0, db_default=0)
    min_memory_mib = models.PositiveIntegerField(default=0, db_default=0)
    min_devices = models.PositiveSmallIntegerField(default=1, db_default=1)

    state = models.CharField(
        max_length=9, choices=State.choices, default=State.QUEUED, db_index=True
    )
    phase = models.CharField(max_length=80, blank=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    worker = models.CharField(max_length=120, blank=True)
    # UUIDs of the GPUs that the attempt holds, joined by commas; "" on the CPU.
    gpu = models.CharField(max_length=400, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    cancel_requested = models.BooleanField(default=False)

    # Null, not empty: the contract's words while there is no verdict.
    verdict = models.CharField(  # noqa: DJ001
        max_length=14, choices=Verdict.choices, null=True, blank=True
    )
    reason = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001
    hits = models.PositiveIntegerField(null=True, blank=True)
    evidence = models.ForeignKey(
        Evidence, models.PROTECT, null=True, blank=True, related_name="runs"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

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
                fields=["repro_digest", "build", "device", "protocol"],
                condition=Q(state__in=["queued", "running"]),
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

    def __str__(self) -> str:
        return f"{self.id} {self.state}"

    def get_absolute_url(self) -> str:
        return reverse("run-detail", args=[self.id])

    @property
    def queue(self) -> str:
        return f"{self.build_id}.{self.device}"

    @property
    def is_over(self) -> bool:
        return self.state not in self.ACTIVE


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


class RunLog(models.Model):
    """The log of a run that is over: what its LogChunk rows held (runs.live_log)."""

    run = models.OneToOneField(
        Run, models.CASCADE, primary_key=True, related_name="archive"
    )
    # JSON rows [seq, attempt, check, stream, text, at], gzip.
    packed = models.BinaryField()
    lines = models.PositiveIntegerField()
    text_bytes = models.PositiveIntegerField()
    packed_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.run_id}: {self.lines} lines"


class Chore(models.Model):
    """When a piece of housekeeping was last done, by whichever process did it."""

    SWEEP = "sweep"
    PRUNE = "prune"

    name = models.CharField(primary_key=True, max_length=40)
    done_at = models.DateTimeField()
    result = models.JSONField(default=dict)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def note(cls, name: str, result: dict[str, int]) -> None:
        fields = {"done_at": Now(), "result": result}
        if not cls.objects.filter(name=name).update(**fields):
            Chore.objects.bulk_create(
                [Chore(name=name, **fields)], ignore_conflicts=True
            )


# Django finds models here; these refer to none above.
from runner.api_models import KeptAnswer, Token  # noqa: E402, F401
