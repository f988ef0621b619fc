"""Writing the search index, in the transaction that writes the records."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from django.db import connection, transaction
from django.db.models import F

from kb.choices import Publication
from kb.models import (
    Record,
    SearchDocument,
    SearchKey,
    SearchRemoved,
    SearchState,
    SearchTerm,
)
from kb.search.index.documents import (
    ALGORITHM,
    MAX_WEIGHT,
    Contents,
    Terms,
    contents_of,
    contents_of_all,
    packed,
    unpacked,
)
from kb.search.index.store import MAX_KEY, current_engine

T = TypeVar("T")
# Documents written at once.
CHUNK = 200
# Of one statement; databases limit them.
MOST_PARAMETERS = 10_000


def write(records: Iterable[Record]) -> None:
    """Index the published ones of these rows and take the others out.

    To be called in the transaction that changes the rows.
    """
    rows = list(records)
    if not rows:
        return
    lock()
    for chunk in chunks(rows, CHUNK):
        SearchDocument.objects.filter(record__in=[row.pk for row in chunk]).delete()
        published = [row for row in chunk if row.publication == Publication.PUBLISHED]
        add(published)
    remove_deleted()


def lock() -> None:
    """Writers of the index queue here, and so take their other locks in one order."""
    _state, created = SearchState.objects.get_or_create(pk=1)
    if created:
        # A new database, or one that was flushed: that empties tables of models only.
        clear()
    SearchState.objects.select_for_update().get(pk=1)


def clear() -> None:
    """Empty the index, whatever it holds."""
    SearchKey.objects.all().delete()
    with connection.cursor() as cursor:
        # As one statement: Django would read every row that it deletes.
        cursor.execute("DELETE FROM kb_searchdocument")
    SearchRemoved.objects.all().delete()
    SearchTerm.objects.all().delete()
    current_engine().clear()
    SearchState.objects.update(documents=0, length=0, generation=new_generation())


def add(records: list[Record]) -> None:
    """Index records that are not in the index."""
    engine = current_engine()
    contents = contents_of_all(records)
    numbers = engine.count(counted(contents))
    rows = SearchDocument.objects.bulk_create(
        SearchDocument(
            record=record,
            algorithm=ALGORITHM,
            facets="\n".join(record.facets()),
            length=document.length,
            signatures=packed(document.signatures),
            terms=terms_of(document, numbers).pack(),
        )
        for record, document in zip(records, contents, strict=True)
    )
    pairs = list(zip(rows, contents, strict=True))
    engine.add({row.pk: document for row, document in pairs})
    SearchKey.objects.bulk_create(
        SearchKey(key=key, document=row)
        for row, document in pairs
        for key in keys_of(document)
    )
    change_totals(len(rows), sum(row.length for row in rows))


def terms_of(document: Contents, numbers: Mapping[str, int]) -> Terms:
    weights = {numbers[token]: weight for token, weight in document.weights.items()}
    return Terms(weights, frozenset(numbers[token] for token in document.title))


def keys_of(document: Contents) -> list[str]:
    return list(dict.fromkeys(key[:MAX_KEY] for key in document.keys))


def remove_deleted() -> None:
    """Take what rows deleted by anyone held out of the full-text index and counts."""
    engine = current_engine()
    while removed := list(SearchRemoved.objects.all()[:CHUNK]):
        contents = stored_contents(removed)
        engine.remove(contents)
        engine.count(counted(contents.values(), -1))
        change_totals(-len(removed), -sum(row.length for row in removed))
        SearchRemoved.objects.filter(pk__in=contents).delete()


def stored_contents(
    rows: Iterable[SearchDocument | SearchRemoved],
) -> dict[int, Contents]:
    """The contents of the rows, by primary key."""
    terms = {row.pk: Terms.unpack(bytes(row.terms)) for row in rows}
    numbers = {
        number for document_terms in terms.values() for number in document_terms.weights
    }
    tokens: dict[int, str] = {}
    for batch in chunks(sorted(numbers), MOST_PARAMETERS):
        batch_terms = SearchTerm.objects.filter(pk__in=batch)
        tokens |= dict(batch_terms.values_list("pk", "token"))
    return {
        row.pk: Contents(
            {tokens[number]: n for number, n in terms[row.pk].weights.items()},
            frozenset(tokens[number] for number in terms[row.pk].title),
            unpacked(row.signatures),
            row.length,
        )
        for row in rows
    }


def chunks(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for at in range(0, len(values), size):
        yield values[at : at + size]


def change_totals(documents: int, length: int) -> None:
    SearchState.objects.update(
        documents=F("documents") + documents,
        length=F("length") + length,
        generation=new_generation(),
    )


def counted(contents: Iterable[Contents], sign: int = 1) -> dict[str, tuple[int, int]]:
    """Token -> how many of these documents have it, and how many in a signature.

    `sign`: -1 gives negative counts, to subtract.
    """
    documents: Counter[str] = Counter()
    signs: Counter[str] = Counter()
    for document in contents:
        documents.update(document.weights.keys())
        signs.update(document.sign)
    # Sorted, so that the rows of a table lie in the order of its index.
    return {
        token: (sign * documents[token], sign * signs[token])
        for token in sorted(documents)
    }


def new_generation() -> int:
    """Random, not one more: a rolled-back transaction must not share its number."""
    return secrets.randbits(62) + 1


def rebuild() -> int:
    """Index all published records anew; returns how many there are."""
    with transaction.atomic():
        lock()
        clear()
        ids = list(Record.objects.visible().values_list("pk", flat=True))
        for chunk in chunks(ids, CHUNK):
            add(list(Record.objects.filter(pk__in=chunk).defer("html")))
        return len(ids)


def bring_up_to_date() -> int:
    """Index what was published, withdrawn or read by other code behind its back.

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


# --- checking -----------------------------------------------------------------------
def problems() -> Iterator[str]:
    """Every difference between the index and the records, as a sentence."""
    rows = {row.record_id: row for row in SearchDocument.objects.all()}
    published = {row.pk: row for row in Record.objects.visible().defer("html")}
    for record in sorted(published.keys() - rows.keys()):
        yield f"{record} is not in the index"
    for record in sorted(rows.keys() - published.keys()):
        yield f"{record} is in the index, but not published"
    contents = stored_contents(list(rows.values()))
    for record in sorted(rows.keys() & published.keys()):
        if not same(rows[record], contents[rows[record].pk], published[record]):
            yield f"{record} has changed since it was indexed"
    removed = list(SearchRemoved.objects.all())
    contents |= stored_contents(removed)
    yield from content_problems(contents, {row.pk for row in removed})
    yield from count_problems(contents)


def same(row: SearchDocument, stored: Contents, record: Record) -> bool:
    expected = contents_of(record)
    capped = {token: min(n, MAX_WEIGHT) for token, n in expected.weights.items()}
    return (
        row.algorithm == ALGORITHM
        and row.facets == "\n".join(record.facets())
        and stored == replace(expected, weights=capped)
        and set(row.keys.values_list("key", flat=True)) == set(keys_of(expected))
    )


def content_problems(
    contents: Mapping[int, Contents], removed: Collection[int]
) -> Iterator[str]:
    """Differences between what was put into the full-text index and what is there.

    A database may have forgotten those `removed` already.
    """
    for column, indexed_tokens in current_engine().contents().items():
        for document, document_contents in contents.items():
            expected = document_contents.column(column)
            indexed = indexed_tokens.pop(document, set())
            if indexed != expected and not (document in removed and not indexed):
                yield f"document {document}: other words in the index ({column})"
        for document in sorted(indexed_tokens):
            yield f"document {document} is gone, its words are not ({column})"


def count_problems(contents: Mapping[int, Contents]) -> Iterator[str]:
    expected = counted(contents.values())
    rows = SearchTerm.objects.exclude(documents=0, signs=0)
    stored = {row.token: (row.documents, row.signs) for row in rows}
    for token in sorted(expected.keys() | stored.keys()):
        if expected.get(token) != stored.get(token):
            yield f"the count of {token!r} is wrong"
    state = SearchState.objects.first() or SearchState()
    length = sum(document.length for document in contents.values())
    if (state.documents, state.length) != (len(contents), length):
        yield "the totals are wrong"
