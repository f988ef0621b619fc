"""Which symptoms of many causes a paste shows, or words ask for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

from kb.addresses import page_urls, record_urls
from kb.lookup.paste import Paste
from kb.models import Record, Symptom
from kb.search.reading.log import key_line
from kb.search.reading.parts import Kind
from kb.search.reading.query import MAX_QUERY, Query, Term, read_query
from kb.search.reading.signatures import Signature, read_signature
from kb.search.reading.symptom_facets import metrics_in

FIELDS = ("slug", "title_en", "title_zh")
Json = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """What of a text can show a symptom: its metrics, and letters of its messages."""

    facets: Collection[str]
    messages: Sequence[str]
    words: Query


def of_paste(paste: Paste) -> list[Symptom]:
    """Those that the paste shows, or that its words ask for."""
    reading = paste.reading
    lines = chain(reading.key_lines, reading.unwrapped, reading.quotes)
    written = " ".join("\n".join(paste.texts(Kind.WORDS)).split())[:MAX_QUERY]
    return showing(
        Shown(
            {*reading.facets, *metrics_in(written).facets},
            [line.letters for line in lines],
            read_query(written),
        )
    )


def of_words(text: str) -> list[Symptom]:
    """Those that the words of a search ask for."""
    text = text[:MAX_QUERY]
    line = key_line(0, "", text).letters
    return showing(Shown(metrics_in(text).facets, [line], read_query(text)))


def every() -> list[Symptom]:
    """Those of which a reader may see a cause."""
    return with_a_cause(list(Symptom.objects.all()))


def showing(shown: Shown) -> list[Symptom]:
    """Those of the site whose signature or name is there."""
    return with_a_cause([row for row in Symptom.objects.all() if is_shown(row, shown)])


def with_a_cause(rows: list[Symptom]) -> list[Symptom]:
    listed = visible_records(rows) if rows else {}
    return [row for row in rows if any(c["record"] in listed for c in row.causes)]


def is_shown(row: Symptom, shown: Shown) -> bool:
    if any(is_printed(text, shown) for text in row.signatures):
        return True
    had = set(chain.from_iterable(term.tokens for term in shown.words.terms))
    return bool(had) and any(is_asked(phrase, had) for phrase in row.words)


def is_printed(line: str, shown: Shown) -> bool:
    """Whether all that the line of a signature says is there."""
    return all(has(sign, shown) for sign in signs_of(line))


@lru_cache(maxsize=256)
def signs_of(line: str) -> tuple[Signature, ...]:
    return tuple(read_signature("message", line))


def has(sign: Signature, shown: Shown) -> bool:
    if sign.kind == "facet":
        return sign.text in shown.facets
    return any(sign.letters in letters for letters in shown.messages)


def is_asked(phrase: str, had: set[str]) -> bool:
    """Whether every word of a name is there, as it is or by a synonym."""
    return all(is_had(term, had) for term in terms_of(phrase))


@lru_cache(maxsize=1024)
def terms_of(phrase: str) -> tuple[Term, ...]:
    return read_query(phrase).terms


def is_had(term: Term, had: set[str]) -> bool:
    if term.in_parts:
        return True
    return not had.isdisjoint(term.tokens) or any(
        had.issuperset(synonym) for synonym in term.synonyms
    )


def visible_records(rows: Iterable[Symptom]) -> dict[str, Record]:
    ids = {cause["record"] for row in rows for cause in row.causes}
    return Record.objects.visible().only(*FIELDS).in_bulk(list(ids))


def documents_of(rows: Sequence[Symptom]) -> list[Json]:
    """As an answer shows them: each with its causes and what tells them apart."""
    records = visible_records(rows) if rows else {}
    return [document(row, records) for row in rows]


def document(row: Symptom, records: dict[str, Record]) -> Json:
    return {
        "slug": row.slug,
        "title": row.both("title"),
        "summary": row.both("summary"),
        "causes": [
            {
                "record": cause["record"],
                "title": records[cause["record"]].both("title"),
                "tells": cause["tells"],
                "urls": record_urls(records[cause["record"]]),
            }
            for cause in row.causes
            if cause["record"] in records
        ],
        "urls": {"html": page_urls("symptom-detail", row.slug)},
    }
