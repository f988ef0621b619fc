"""The rows of the search index."""

from __future__ import annotations

from django.db import models


class SearchDocument(models.Model):
    """An indexed, published record; only kb.search.index.writer writes it.

    A trigger of migration 0002 copies a deleted row to SearchRemoved.
    """

    record = models.OneToOneField("kb.Record", models.CASCADE, related_name="+")
    # kb.search.index.documents.ALGORITHM of the code that indexed it.
    algorithm = models.PositiveIntegerField()
    # "symptom:nan_grad" and so on, one a line.
    facets = models.TextField()
    # In tokens, repeats counted.
    length = models.PositiveIntegerField()
    # As kb.search.reading.signatures packs them, in JSON.
    signatures = models.TextField()
    # Numbers of its terms and their weights (kb.search.index.documents.Terms).
    terms = models.BinaryField()

    def __str__(self) -> str:
        return f"{self.record_id}"


class SearchRemoved(models.Model):
    """A deleted SearchDocument whose tokens are still in the full-text index.

    The next writer of the index takes them out; until then readers find no document
    of this number.
    """

    document = models.BigIntegerField(primary_key=True)
    length = models.IntegerField()
    signatures = models.TextField()
    terms = models.BinaryField()

    def __str__(self) -> str:
        return f"{self.document}"


class SearchKey(models.Model):
    """What finds a record's signatures besides their tokens: fingerprints, facets."""

    key = models.TextField()
    document = models.ForeignKey(SearchDocument, models.CASCADE, related_name="keys")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["key", "document"], name="one_search_key")
        ]

    def __str__(self) -> str:
        return self.key


class SearchTerm(models.Model):
    """In how many documents a token stands, and in how many of their signatures."""

    token = models.TextField()
    documents = models.IntegerField()
    signs = models.IntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["token"], name="one_search_term")
        ]

    def __str__(self) -> str:
        return self.token


class SearchState(models.Model):
    """One row: totals, and `generation`, a version counter of records and index."""

    documents = models.IntegerField(default=0)
    length = models.BigIntegerField(default=0)
    generation = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.documents} documents"
