"""What records are found by, written in the transaction that writes the records."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable

from kb.choices import Publication
from kb.models import Record, SearchDocument, SearchState
from kb.search.index.documents import ALGORITHM, documents_of


def write(records: Iterable[Record]) -> None:
    """Keep the documents of the published ones of these rows, and none of the others.

    To be called in the transaction that changes the rows.
    """
    rows = list(records)
    published = [row for row in rows if row.publication == Publication.PUBLISHED]
    hidden = [row.pk for row in rows if row.publication != Publication.PUBLISHED]
    SearchDocument.objects.filter(record__in=hidden).delete()
    SearchDocument.objects.bulk_create(
        [
            row_of(record, document.pack())
            for record, document in zip(published, documents_of(published), strict=True)
        ],
        update_conflicts=True,
        unique_fields=["record"],
        update_fields=["algorithm", "contents", "digest"],
    )
    if rows:
        SearchState.objects.update_or_create(
            pk=1, defaults={"generation": new_generation()}
        )


def row_of(record: Record, contents: str) -> SearchDocument:
    digest = hashlib.sha256(contents.encode()).hexdigest()
    return SearchDocument(
        record=record, algorithm=ALGORITHM, contents=contents, digest=digest
    )


def new_generation() -> int:
    """Random, not one more: a rolled-back transaction must not share its number."""
    return secrets.randbits(62) + 1


def bring_up_to_date() -> int:
    """Read again what was published, withdrawn or read by other code behind its back.

    Returns the number of records written. In a transaction.
    """
    current = SearchDocument.objects.filter(algorithm=ALGORITHM)
    missing = Record.objects.visible().exclude(pk__in=current.values("record"))
    hidden = SearchDocument.objects.exclude(
        record__publication=Publication.PUBLISHED
    ).values("record")
    rows = [*missing, *Record.objects.filter(pk__in=hidden)]
    write(rows)
    return len(rows)
