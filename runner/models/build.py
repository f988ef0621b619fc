"""Torch builds, and where they are installed."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import models
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from kb.records.facts import BUILD_SLUG

SLUG = RegexValidator(rf"^{BUILD_SLUG}\Z")


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
        INSTALLING = "installing", _("being installed")

    build = models.ForeignKey(
        Build, models.CASCADE, null=True, blank=True, related_name="installations"
    )
    host = models.CharField(max_length=120)
    interpreter = models.CharField(max_length=500)
    # Made by us under BUILDS_DIR; a user's own environment is never written to.
    managed = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=State.choices)
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
