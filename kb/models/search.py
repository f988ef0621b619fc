"""What records are found by; the index itself is in memory (`kb.search.index`)."""

from __future__ import annotations

from django.db import models


class SearchDocument(models.Model):
    """What a published record is found by; only `kb.search.index.writer` writes it.

    Read once by the process that saves the record, so that no other has to.
    """

    record = models.OneToOneField(
        "kb.Record", models.CASCADE, primary_key=True, related_name="+"
    )
    # kb.search.index.documents.ALGORITHM of the code that read the record.
    algorithm = models.PositiveIntegerField()
    # kb.search.index.documents.Document as it packs itself, and the SHA-256 of that.
    contents = models.TextField()
    digest = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"{self.record_id}"


class SearchState(models.Model):
    """One row: `generation`, a version counter of records and their documents."""

    generation = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return str(self.generation)
