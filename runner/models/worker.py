"""Who executes runs: workers, their GPUs, and housekeeping done by any of them."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Worker(models.Model):
    """What a worker process group says of itself, renewed by heartbeat."""

    name = models.CharField(primary_key=True, max_length=120)
    host = models.CharField(max_length=120)
    queues = models.JSONField(default=list)
    devices = models.JSONField(default=list)
    tier = models.CharField(max_length=1, blank=True)
    # What holds its runs and what does not: runner.sandbox.Tier as JSON.
    sandbox = models.JSONField(default=dict)
    # Why its host starts checks cold that could be warm, a line for each build.
    cold = models.TextField(blank=True, default="", db_default="")
    slots = models.PositiveSmallIntegerField(default=1)
    # By an operator: it finishes what it has and claims nothing more.
    paused = models.BooleanField(default=False)
    # The same, and then it ends itself.
    draining = models.BooleanField(default=False, db_default=False)
    # `PROTOCOL` of the harness of its checkout: it claims no runs of another.
    protocol = models.PositiveSmallIntegerField(default=0, db_default=0)
    started_at = models.DateTimeField()
    last_seen = models.DateTimeField()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def takes_runs(self) -> bool:
        return not (self.paused or self.draining)

    @property
    def cold_builds(self) -> list[str]:
        return self.cold.splitlines()


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


class Chore(models.Model):
    """When a piece of housekeeping was last done, by whichever process did it."""

    REAP = "reap"
    PRUNE = "prune"
    PROBE = "probe"

    name = models.CharField(primary_key=True, max_length=40)
    done_at = models.DateTimeField()
    result = models.JSONField(default=dict)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def is_due(cls, name: str, every: timedelta) -> bool:
        """Whether it was done that long ago; of several who ask, one is told so."""
        row, is_new = cls.objects.get_or_create(name=name, defaults={"done_at": Now()})
        long_ago = cls.objects.filter(name=row.name, done_at__lt=Now() - every)
        return is_new or bool(long_ago.update(done_at=Now()))

    @classmethod
    def note(cls, name: str, result: dict[str, int]) -> None:
        fields = {"done_at": Now(), "result": result}
        if not cls.objects.filter(name=name).update(**fields):
            Chore.objects.bulk_create(
                [Chore(name=name, **fields)], ignore_conflicts=True
            )
