"""Who wants to hear of flips, and the outbox: what is told to whom.

A flip (`kb.models.standing.Flip`) is computed anew with its record; here each is kept
once, with a row for each subscriber that says whether they were told.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class Change(models.Model):
    """A verdict that turned, kept once however often it is computed."""

    record = models.ForeignKey("kb.Record", models.CASCADE, related_name="changes")
    device_class = models.CharField(max_length=4)
    kind = models.CharField(max_length=10)  # first_bad | first_good
    before = models.CharField(max_length=61)
    build = models.CharField(max_length=61)
    build_raw = models.CharField(max_length=120)
    observed_at = models.DateTimeField()
    noted_at = models.DateTimeField(auto_now_add=True)

    objects: models.Manager[Change] = models.Manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["record", "device_class", "kind", "build"], name="one_change"
            )
        ]

    def __str__(self) -> str:
        return f"{self.record_id} {self.kind} in {self.build}"

    @property
    def is_good(self) -> bool:
        return self.kind == "first_good"


class ChangeState(models.Model):
    """One row: up to which version counter of standings changes were kept."""

    generation = models.BigIntegerField(default=0)

    objects: models.Manager[ChangeState] = models.Manager()

    def __str__(self) -> str:
        return str(self.generation)


class Webhook(models.Model):
    """An address that is told by a signed POST."""

    name = models.SlugField(max_length=40, unique=True)
    address = models.CharField(max_length=500)
    # Needed for each signature, so it is kept; shown once, when it is made.
    secret = models.CharField(max_length=100)
    created_at = models.DateTimeField(auto_now_add=True)

    objects: models.Manager[Webhook] = models.Manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Subscription(models.Model):
    """What an account or a webhook wants to hear of."""

    class Kind(models.TextChoices):
        RECORD = "record", _("a record")
        COMPONENT = "component", _("a component")
        ENVIRONMENT = "environment", _("my environment")
        EVERYTHING = "everything", _("everything")

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="subscriptions",
    )
    webhook = models.ForeignKey(
        Webhook,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="subscriptions",
    )
    kind = models.CharField(max_length=11, choices=Kind.choices)
    record = models.ForeignKey(
        "kb.Record", models.CASCADE, null=True, blank=True, related_name="subscriptions"
    )
    component = models.CharField(max_length=100, blank=True)
    # As it was pasted: pip freeze or collect_env.
    environment = models.TextField(blank=True)
    # In which an account is written to: "en" or "zh".
    language = models.CharField(max_length=2, default="en")
    created_at = models.DateTimeField(auto_now_add=True)

    objects: models.Manager[Subscription] = models.Manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(user=None, webhook__isnull=False)
                | Q(user__isnull=False, webhook=None),
                name="one_subscriber",
            )
        ]

    def __str__(self) -> str:
        return self.record_id or self.component or self.kind


class Delivery(models.Model):
    """That one subscriber is told of one change; its id tells doubles apart."""

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        SENT = "sent", _("sent")
        GIVEN_UP = "given_up", _("given up")
        # For an account without mail: its page shows it.
        SHOWN = "shown", _("shown on the page")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    change = models.ForeignKey(Change, models.CASCADE, related_name="deliveries")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="deliveries",
    )
    webhook = models.ForeignKey(
        Webhook,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="deliveries",
    )
    language = models.CharField(max_length=2, default="en")
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    # The fence, as with runs: only whoever raised it may write how it ended.
    attempts = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(default=timezone.now)
    # Why the last attempt failed; never an address or what a receiver answered.
    error = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects: models.Manager[Delivery] = models.Manager()

    class Meta:
        ordering = ["-created_at", "id"]
        verbose_name_plural = "deliveries"
        indexes = [models.Index(fields=["state", "next_at"])]
        constraints = [
            models.UniqueConstraint(fields=["change", "user"], name="one_for_user"),
            models.UniqueConstraint(
                fields=["change", "webhook"], name="one_for_webhook"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.change_id} to {self.webhook_id or self.user_id}"
