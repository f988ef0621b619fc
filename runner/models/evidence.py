"""What runs observed, each object under its digest."""

from __future__ import annotations

from functools import lru_cache

from django.db import models
from django.urls import reverse

from kb.choices import OUR_ORIGINS, DeviceClass, Verdict
from kb.languages import current_lang
from runner.models.build import Build
from runner.parameters import MAX_CHARS, settings_of


class Evidence(models.Model):
    """One immutable evidence object (contract §5), addressed by its digest."""

    digest = models.CharField(primary_key=True, max_length=71)
    record = models.ForeignKey(
        "kb.Record", models.SET_NULL, null=True, related_name="evidence"
    )
    # None of what somebody sent: his word makes no build, and bends none.
    build = models.ForeignKey(
        Build, models.PROTECT, null=True, blank=True, related_name="evidence"
    )
    build_slug = models.CharField(max_length=61, db_index=True, db_default="")
    repro_name = models.CharField(max_length=60)
    repro_digest = models.CharField(max_length=71, db_index=True)
    device_class = models.CharField(max_length=4, choices=DeviceClass.choices)
    verdict = models.CharField(max_length=14, choices=Verdict.choices)
    origin = models.CharField(max_length=40)
    # The user whose token sent it; "" where nobody did, or in a file.
    sender = models.CharField(max_length=150, blank=True, default="", db_default="")
    started_at = models.DateTimeField()
    added_at = models.DateTimeField(auto_now_add=True)
    # Other values than those that were reviewed (runner.parameters); "" for these.
    parameters = models.CharField(
        max_length=MAX_CHARS, blank=True, default="", db_default=""
    )
    body = models.JSONField()
    # Whether it was new to the call that returned it (runner.evidence.exchange).
    created = False

    class Meta:
        ordering = ["-started_at", "digest"]
        verbose_name_plural = "evidence"
        indexes = [
            models.Index(fields=["build", "started_at"]),
            models.Index(
                name="evidence_of_repro",
                fields=["record", "repro_name", "build", "started_at"],
            ),
        ]

    def __str__(self) -> str:
        return self.digest

    def get_absolute_url(self) -> str:
        return evidence_path(self.short)

    @property
    def is_sent(self) -> bool:
        """Neither run by this site nor reviewed with the repository.

        It is shown as what it is, and decides nothing: no finding is made of it.
        """
        return self.origin not in OUR_ORIGINS

    @property
    def settings(self) -> list[str]:
        """The values that are not the reviewed ones: length=704."""
        return settings_of(self.parameters)

    @property
    def short(self) -> str:
        """The first twelve hex digits, as in addresses."""
        return self.digest.removeprefix("sha256:")[:12]


def evidence_path(short: str) -> str:
    """The page of the evidence whose digest begins so, in the active language."""
    return path_in(current_lang(), short)


@lru_cache(maxsize=5000)
def path_in(_lang: str, short: str) -> str:
    return reverse("evidence-detail", args=[short])
