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
    packed,
    unpacked,
)
from kb.search.index.store import MAX_KEY, current_engine

T = TypeVar("T")
# Documents written at once.
CHUNK = 200
MOST_PARAMETERS = 10_000


def write(records: Iterable[Record]) -> None:
    """Index the published ones of these rows and take the others out.

    To be called in the transaction that changes the rows.
    """
    rows = list(records)
    if not rows:
        return
    lock()
    for at in range(0, len(rows), CHUNK):
        chunk = rows[at : at + CHUNK]
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
    contents = [contents_of(record) for record in records]
    numbers = engine.count(counted(contents))
    rows = SearchDocument.objects.bulk_create(
        SearchDocument(
            record=record,
            algorithm=ALGORITHM,
            facets="\n".join(record.facets()),
            length=held.length,
            signatures=packed(held.signatures),
            terms=terms_of(held, numbers).pack(),
        )
        for record, held in zip(records, contents, strict=True)
    )
    pairs = list(zip(rows, contents, strict=True))
    engine.add({row.pk: held for row, held in pairs})
    SearchKey.objects.bulk_create(
        SearchKey(key=key, document=row) for row, held in pairs for key in keys_of(held)
    )
    change_totals(len(rows), sum(row.length for row in rows))


def terms_of(held: Contents, numbers: Mapping[str, int]) -> Terms:
    weights = {numbers[token]: weight for token, weight in held.weights.items()}
    return Terms(weights, frozenset(numbers[token] for token in held.title))


def keys_of(held: Contents) -> list[str]:
    return list(dict.fromkeys(key[:MAX_KEY] for key in held.keys))


def remove_deleted() -> None:
    """Take what rows deleted by anyone held out of the full-text index and counts."""
    engine = current_engine()
    while gone := list(SearchRemoved.objects.all()[:CHUNK]):
        contents = stored_contents(gone)
        engine.remove(contents)
        engine.count(counted(contents.values(), -1))
        change_totals(-len(gone), -sum(row.length for row in gone))
        SearchRemoved.objects.filter(pk__in=contents).delete()


def stored_contents(
    rows: Iterable[SearchDocument | SearchRemoved],
) -> dict[int, Contents]:
    """What the rows hold, by the number of the document."""
    terms = {row.pk: Terms.unpack(bytes(row.terms)) for row in rows}
    wanted = {number for held in terms.values() for number in held.weights}
    tokens: dict[int, str] = {}
    for some in chunks(sorted(wanted)):
        known = SearchTerm.objects.filter(pk__in=some)
        tokens |= dict(known.values_list("pk", "token"))
    return {
        row.pk: Contents(
            {tokens[number]: n for number, n in terms[row.pk].weights.items()},
            frozenset(tokens[number] for number in terms[row.pk].title),
            unpacked(row.signatures),
            row.length,
        )
        for row in rows
    }


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Pieces short enough for the parameters of one statement."""
    for at in range(0, len(values), MOST_PARAMETERS):
        yield values[at : at + MOST_PARAMETERS]


def change_totals(documents: int, length: int) -> None:
    SearchState.objects.update(
        documents=F("documents") + documents,
        length=F("length") + length,
        generation=new_generation(),
    )


def counted(contents: Iterable[Contents], each: int = 1) -> dict[str, tuple[int, int]]:
    """Token -> how many of these documents have it, and how many in a signature."""
    documents: Counter[str] = Counter()
    signs: Counter[str] = Counter()
    for held in contents:
        documents.update(held.weights.keys())
        signs.update(held.sign)
    # Sorted, so that the rows of a table lie in the order of its index.
    return {
        token: (each * documents[token], each * signs[token])
        for token in sorted(documents)
    }


def new_generation() -> int:
    """Not one more: a transaction rolled back must not give its number to another."""
    return secrets.randbits(62) + 1


def rebuild() -> int:
    """Everything from the records again; the number of documents."""
    with transaction.atomic():
        lock()
        clear()
        ids = list(Record.objects.visible().values_list("pk", flat=True))
        for at in range(0, len(ids), CHUNK):
            rows = Record.objects.filter(pk__in=ids[at : at + CHUNK]).defer("html")
            add(list(rows))
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
    """What in the index is not as the records have it."""
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
    wanted = contents_of(record)
    capped = {token: min(n, MAX_WEIGHT) for token, n in wanted.weights.items()}
    return (
        row.algorithm == ALGORITHM
        and row.facets == "\n".join(record.facets())
        and stored == replace(wanted, weights=capped)
        and set(row.keys.values_list("key", flat=True)) == set(keys_of(wanted))
    )


def content_problems(
    contents: Mapping[int, Contents], removed: Collection[int]
) -> Iterator[str]:
    """Differences between what was put into the full-text index and what is there.

    A database may have forgotten those `removed` already.
    """
    for column, found in current_engine().contents().items():
        for document, held in contents.items():
            wanted = held.column(column)
            indexed = found.pop(document, set())
            if indexed != wanted and not (document in removed and not indexed):
                yield f"document {document}: other words in the index ({column})"
        for document in sorted(found):
            yield f"document {document} is gone, its words are not ({column})"


def count_problems(contents: Mapping[int, Contents]) -> Iterator[str]:
    wanted = counted(contents.values())
    rows = SearchTerm.objects.exclude(documents=0, signs=0)
    found = {row.token: (row.documents, row.signs) for row in rows}
    for token in sorted(wanted.keys() | found.keys()):
        if wanted.get(token) != found.get(token):
            yield f"the count of {token!r} is wrong"
    state = SearchState.objects.first() or SearchState()
    length = sum(held.length for held in contents.values())
    if (state.documents, state.length) != (len(contents), length):
        yield "the totals are wrong"
