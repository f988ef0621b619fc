"""Answers that a reader has kept for others."""

from __future__ import annotations

import secrets

from django.db import models
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

# 16 random bytes: nobody finds an address by trying.
ID_BYTES, ID_CHARS = 16, 22


def new_id() -> str:
    return secrets.token_urlsafe(ID_BYTES)


class SharedAnswerQuerySet(models.QuerySet["SharedAnswer"]):
    def current(self) -> SharedAnswerQuerySet:
        """What may be shown: an expired row is none, deleted yet or not."""
        return self.filter(expires_at__gt=timezone.now())

    def expired(self) -> SharedAnswerQuerySet:
        return self.filter(expires_at__lte=timezone.now())


class SharedAnswer(models.Model):
    """What of a paste somebody chose to keep: masked lines and a few versions.

    Never changed: its address stands for what was shown. The answer itself is none of
    it, which is looked up anew whenever it is shown.
    """

    id = models.CharField(
        primary_key=True, max_length=ID_CHARS, default=new_id, editable=False
    )
    log = models.TextField(blank=True)
    env = models.TextField(blank=True)
    # Who made it, as a keyed digest: enough to count by, and no address.
    maker = models.CharField(max_length=32)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(db_index=True)

    objects = SharedAnswerQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["maker", "created_at"])]
        verbose_name = _("kept answer")
        verbose_name_plural = _("kept answers")

    def __str__(self) -> str:
        return self.id

    def get_absolute_url(self) -> str:
        return reverse("shared-answer", args=[self.id])
