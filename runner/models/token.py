"""Tokens of the API."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.core.validators import RegexValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

PREFIX = "dtn_"
SECRET_BYTES = 32
# As the origin of evidence has it; these two say where evidence was made here.
NAME = RegexValidator(r"^(?!(?:site|repository)\Z)[a-z0-9._-]{1,40}\Z")
USE_IS_NOTED_EVERY = timedelta(minutes=1)


def digest_of(secret: str) -> str:
    """256 random bits need no salt and no slow hash: nobody can guess them."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Token(models.Model):
    """What a program shows to act for a user. Its secret is shown once, never kept."""

    class Scope(models.TextChoices):
        RUN = "run", _("start and cancel runs")
        EVIDENCE = "evidence", _("send evidence")

    name = models.CharField(
        max_length=40,
        unique=True,
        validators=[NAME],
        help_text=_(
            "Lower case, digits and . _ - only. Evidence shows it as its origin."
        ),
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="api_tokens"
    )
    digest = models.CharField(max_length=64, unique=True, editable=False)
    # The first characters of the secret, by which its owner knows it again.
    start = models.CharField(max_length=10, editable=False)
    scopes = models.JSONField(default=list, blank=True)
    expires_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects: models.Manager[Token] = models.Manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return f"{self.name} {self.start}…"

    @classmethod
    def issue(
        cls, name: str, user: User, scopes: list[str], expires_at: datetime
    ) -> tuple[Token, str]:
        """A new token and its secret. Raises ValidationError for a bad name."""
        secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        token = cls(
            name=name,
            user=user,
            digest=digest_of(secret),
            start=secret[:10],
            scopes=sorted(set(scopes) & set(cls.Scope.values)),
            expires_at=expires_at,
        )
        token.full_clean()
        token.save()
        return token, secret

    @property
    def is_valid(self) -> bool:
        return self.expires_at > timezone.now() and bool(self.user.is_active)

    def note_use(self) -> None:
        """At most one write a minute, however many requests."""
        now = timezone.now()
        if self.last_used_at and now - self.last_used_at < USE_IS_NOTED_EVERY:
            return
        type(self).objects.filter(pk=self.pk).update(last_used_at=now)
