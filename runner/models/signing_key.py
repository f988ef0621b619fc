"""Public keys by which senders sign their evidence."""

from __future__ import annotations

from django.db import models

from runner.models.token import NAME


class SigningKey(models.Model):
    """An SSH key that signs for one name: of a token, or that files are loaded under.

    A name that ever had a key takes signed evidence only. A revoked key stays, so that
    what it signed can be told, and what comes with it later is refused.
    """

    name = models.CharField(max_length=40, validators=[NAME], db_index=True)
    # Type and key, as in authorized_keys.
    public = models.TextField()
    # SHA256:…, as ssh-keygen prints it. Of one name only: two names that sign with one
    # key would be one sender who confirms himself.
    fingerprint = models.CharField(max_length=50, unique=True)
    added_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects: models.Manager[SigningKey] = models.Manager()

    class Meta:
        ordering = ["name", "added_at"]

    def __str__(self) -> str:
        return f"{self.name} {self.fingerprint}"
