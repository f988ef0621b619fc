"""Aggregates of findings, for pages that show many records.

`kb.findings.standings` computes them from records and findings, and `load_records`
computes missing ones.
"""

from __future__ import annotations

from django.db import models


class Standing(models.Model):
    """Facets and claim counts of one record; only published records have one."""

    record = models.OneToOneField("kb.Record", models.CASCADE, primary_key=True)
    # {"symptom": ["nan_grad"], "component": ["sdpa"], …}
    facets = models.JSONField(default=dict)
    first_bad = models.CharField(max_length=61, blank=True)
    first_good = models.CharField(max_length=61, blank=True)
    # How many of its claims are in each state (kb.findings.claims).
    verified = models.PositiveIntegerField(default=0)
    refuted = models.PositiveIntegerField(default=0)
    disputed = models.PositiveIntegerField(default=0)
    documented = models.PositiveIntegerField(default=0)
    # What executions contradict (kb.findings.contradictions); null in a row that was
    # written before it was counted.
    contradicted = models.PositiveIntegerField(null=True, db_index=True)

    class Meta:
        ordering = ["record_id"]

    def __str__(self) -> str:
        return f"{self.record_id}"


class Flip(models.Model):
    """Two neighbouring tested builds of which one shows the bug and one does not."""

    record = models.ForeignKey("kb.Record", models.CASCADE, related_name="flips")
    device_class = models.CharField(max_length=4)
    kind = models.CharField(max_length=10)  # first_bad | first_good
    before = models.CharField(max_length=61)
    build = models.CharField(max_length=61)
    build_raw = models.CharField(max_length=120)
    # The later of the two verdicts: before it there was no flip to see.
    observed_at = models.DateTimeField(db_index=True)

    class Meta:
        ordering = ["record_id", "device_class", "id"]
        indexes = [
            # Counted by all three without reading the rows.
            models.Index(name="flip_counted", fields=["build", "kind", "before"]),
            models.Index(name="flip_in_build", fields=["build", "-record"]),
        ]

    def __str__(self) -> str:
        return f"{self.record_id} {self.kind} in {self.build}"

    @property
    def is_good(self) -> bool:
        return self.kind == "first_good"


class TestedBuild(models.Model):
    """A build with a fresh verdict on a published record, and on how many."""

    slug = models.CharField(primary_key=True, max_length=61)
    raw = models.CharField(max_length=120)
    records = models.PositiveIntegerField()
    # Whether any of those verdicts is present or absent, of the bug itself.
    judged = models.BooleanField()

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug


class TallyState(models.Model):
    """One row: `generation`, a version counter of the other tables here."""

    generation = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return str(self.generation)
