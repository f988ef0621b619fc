"""Answers of an OSV database, as api.osv.dev gives them and its exports are laid out.

Clients send all packages that somebody has installed: nothing of it is stored or
logged, and an answer sets no cookie.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache, wraps
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse, UnreadablePostError
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import conditional_page, require_POST, require_safe

from kb.addresses import base_address
from kb.findings.results import timestamp
from kb.models import Finding, Record
from kb.search.index.generation import Generation, current_generation
from kb.syndication.dates import SHOWN, first_and_last, verdict_rows
from kb.syndication.osv.documents import PREFIX, Json, document, osv_id
from kb.syndication.osv.queries import (
    Asked,
    QueryError,
    exported_ids,
    matching,
    read_query,
)

# As api.osv.dev, whose errors carry codes of gRPC.
MAX_QUERIES = 1000
INVALID_ARGUMENT, NOT_FOUND, UNAVAILABLE = 3, 5, 14
View = Callable[[HttpRequest], HttpResponse]


def with_records(view: View) -> View:
    """503 where none are loaded yet: no entry would read as "not affected"."""

    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        if Record.objects.exists():
            return view(request)
        return refused(UNAVAILABLE, "No records are loaded yet.", 503)

    return answer


@csrf_exempt
@require_POST
@with_records
def query(request: HttpRequest) -> HttpResponse:
    try:
        asked = read_query(body_of(request))
    except QueryError as error:
        return refused(INVALID_ARGUMENT, str(error))
    (found,) = matching([asked])
    documents = list(documents_of(found, base_address(request)))
    return JsonResponse({"vulns": documents} if documents else {})


@csrf_exempt
@require_POST
@with_records
def query_batch(request: HttpRequest) -> HttpResponse:
    try:
        asked = read_batch(body_of(request))
    except QueryError as error:
        return refused(INVALID_ARGUMENT, str(error))
    found = matching(asked)
    dates = modified_dates({record for records in found for record in records})
    return JsonResponse(
        {
            "results": [
                {"vulns": [{"id": osv_id(pk), "modified": dates[pk]} for pk in records]}
                if records
                else {}
                for records in found
            ]
        }
    )


@conditional_page
@require_safe
def vulnerability(request: HttpRequest, name: str) -> HttpResponse:
    record_id = name.removeprefix(PREFIX) if name.isprintable() else ""
    record = Record.objects.addressable().filter(pk=record_id).first()
    findings = verdict_rows().filter(record=record_id)
    found = record and document(record, findings, base_address(request))
    if not found:
        return refused(NOT_FOUND, "Bug not found.", 404)
    return JsonResponse(found)


@conditional_page
@require_safe
@with_records
def export(request: HttpRequest) -> HttpResponse:
    """all.zip: one file for each entry, as osv-scanner's offline databases are."""
    content = archive(current_generation(), base_address(request))
    return HttpResponse(content, content_type="application/zip")


@conditional_page
@require_safe
def modified_ids(request: HttpRequest) -> HttpResponse:
    """modified_id.csv: when each entry last changed, newest first."""
    return HttpResponse(modified_csv(), content_type="text/csv")


# --- what they are made of ----------------------------------------------------------


def body_of(request: HttpRequest) -> Any:
    """The JSON of a request, whatever type it says it has. Raises QueryError."""
    try:
        return json.loads(request.body)
    except RequestDataTooBig:
        raise QueryError("The request is too large.") from None
    except UnreadablePostError:
        raise QueryError("The connection ended before the body did.") from None
    except (ValueError, RecursionError):  # also of text that is not UTF-8
        raise QueryError("The body is no JSON.") from None


def read_batch(batch: Any) -> list[Asked | None]:
    queries = batch.get("queries") if isinstance(batch, dict) else None
    if not isinstance(queries, list):
        raise QueryError('A batch needs "queries": a list of queries.')
    if len(queries) > MAX_QUERIES:
        raise QueryError(f"A batch has at most {MAX_QUERIES} queries.")
    return [read_query(item) for item in queries]


def refused(code: int, message: str, status: int = 400) -> JsonResponse:
    return JsonResponse({"code": code, "message": message}, status=status)


def documents_of(records: Collection[str], base: str) -> Iterator[Json]:
    """The entries of these records, those that are exported."""
    by_record: dict[str, list[Finding]] = {}
    for row in verdict_rows().filter(record__in=records):
        by_record.setdefault(row.record_id, []).append(row)
    for record in Record.objects.visible().filter(pk__in=records):
        found = document(record, by_record.get(record.pk, []), base)
        if found:
            yield found


def modified_dates(records: set[str]) -> dict[str, str]:
    rows = Record.objects.filter(pk__in=records).only(*SHOWN)
    return {pk: timestamp(last) for pk, (_first, last) in first_and_last(rows).items()}


def modified_csv() -> str:
    dates = modified_dates(exported_ids())
    rows = sorted((date, osv_id(key)) for key, date in dates.items())
    return "".join(f"{date},{key}\n" for date, key in reversed(rows))


@lru_cache(maxsize=2)
def archive(generation: Generation, base: str) -> bytes:
    """The same bytes for the same records and runs; `generation` is the cache's key."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for entry in documents_of(exported_ids(), base):
            info = zipfile.ZipInfo(f"{entry['id']}.json")
            info.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(info, json.dumps(entry, ensure_ascii=False))
    return content.getvalue()
