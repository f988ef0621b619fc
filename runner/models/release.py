"""Releases that the package indexes have, and who may look after them."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import IntegrityError, models, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from runner.models.build import Build


class WatchedRelease(models.Model):
    """What `manage.py watch` found and how far it came; never what it did not find."""

    class State(models.TextChoices):
        FOUND = "found", _("found, not installed yet")
        INSTALLED = "installed", _("installed, its runs are under way")
        FAILED = "failed", _("does not install")
        RAN = "ran", _("installed and run")
        REMOVED = "removed", _("run, and removed again")
        NOTED = "noted", _("not installed by itself")

    package = models.CharField(max_length=100)
    version = models.CharField(max_length=120)
    state = models.CharField(max_length=9, choices=State.choices, default=State.FOUND)
    build = models.ForeignKey(
        Build, models.SET_NULL, null=True, blank=True, related_name="watched"
    )
    # Where it was installed; "" before.
    host = models.CharField(max_length=120, blank=True)
    interpreter = models.CharField(max_length=500, blank=True)
    # Why it did not install, or waits: the last lines that the installer printed.
    error = models.TextField(blank=True)
    # Sentences of what turned on it, as the feed says them in English.
    flips = models.JSONField(default=list, blank=True)
    found_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    objects: models.Manager[WatchedRelease] = models.Manager()

    class Meta:
        ordering = ["-found_at", "package", "version"]
        constraints = [
            models.UniqueConstraint(
                fields=["package", "version"], name="one_watched_release"
            )
        ]

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


class Lease(models.Model):
    """The right to do one kind of work, of one process among all hosts of the site."""

    name = models.CharField(primary_key=True, max_length=40)
    holder = models.CharField(max_length=700)
    until = models.DateTimeField()

    objects: models.Manager[Lease] = models.Manager()

    def __str__(self) -> str:
        return f"{self.name}: {self.holder}"

    @classmethod
    def take(cls, name: str, holder: str, span: timedelta) -> bool:
        """Take or renew it for `span`; False where another one has it."""
        until = Now() + span
        mine = Q(holder=holder) | Q(until__lt=Now())
        if cls.objects.filter(mine, name=name).update(holder=holder, until=until):
            return True
        try:
            with transaction.atomic():
                cls.objects.create(name=name, holder=holder, until=until)
        except IntegrityError:
            return False
        return True

    @classmethod
    def give_back(cls, name: str, holder: str) -> None:
        cls.objects.filter(name=name, holder=holder).delete()

    @classmethod
    def holder_of(cls, name: str) -> tuple[str, datetime]:
        """Who has it, and until when; ("", now) where nobody has."""
        row = cls.objects.filter(name=name).first()
        return (row.holder, row.until) if row else ("", timezone.now())
