"""The matrix as CSV and as JSON: the same cells as the page, without words."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, JsonResponse, QueryDict, StreamingHttpResponse
from django.http.response import HttpResponseBase

from kb.findings.results import timestamp
from kb.models import Finding
from runner.pages.matrix import Matrix, MatrixRow, build_matrix, gpu_of
from runner.pages.record_matrix import RecordMatrix

FORMATS = ("csv", "json")
CELL_KEYS = (
    *("verdict", "reason", "hits", "trials", "likely", "flip"),
    *("evidence", "observed_at", "origin", "confirmed"),
)
CSV_HEAD = (
    *("record", "repro", "fidelity", "device", "gpu", "build", "check"),
    *CELL_KEYS,
)
# A spreadsheet takes a cell that begins so for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
LIKELY = {"bug": "bug_present", "clean": "bug_absent"}
Cell = dict[str, Any]
Line = dict[str, Any]


def answer(request: HttpRequest, record: RecordMatrix | None) -> HttpResponseBase:
    """What ?format= asks for, of all records or of one."""
    if request.GET["format"] == "csv":
        lines = record_lines(record) if record else all_lines(request.GET)
        return as_csv(lines, record.record.id if record else "matrix")
    if record:
        return JsonResponse({"cells": list(record_lines(record))})
    return JsonResponse(document(request, build_matrix(request.GET)))


# --- all records ----------------------------------------
def document(request: HttpRequest, page: Matrix) -> dict[str, Any]:
    """One page of records; `next` leads to the others."""
    following = None
    if page.window.next:
        query = request.GET.copy()
        query["page"] = str(page.window.next)
        following = request.build_absolute_uri(f"?{query.urlencode()}")
    return {
        "builds": [column.slug for column in page.columns],
        "rows": [row_document(row, page) for row in page.rows],
        "models": [finding_line(finding) for finding in page.models],
        "next": following,
    }


def row_document(row: MatrixRow, page: Matrix) -> dict[str, Any]:
    return {
        "record": row.record.id,
        "title": row.record.both("title"),
        "repro": row.repro,
        "device": row.device,
        "gpu": row.gpu or None,
        "cells": dict(cells_of(row, page)),
    }


def cells_of(row: MatrixRow, page: Matrix) -> Iterator[tuple[str, Cell]]:
    """Every build of the row: a verdict, or null where nobody has run it."""
    flips = flips_by_column(row)
    cells = zip(page.columns, row.findings, row.squares, strict=True)
    for at, (column, finding, square) in enumerate(cells):
        likely = LIKELY.get(square.likely) if not finding else None
        yield column.slug, cell(finding) | {"likely": likely, "flip": flips.get(at)}


def flips_by_column(row: MatrixRow) -> dict[int, str]:
    flips, at = {}, 0
    for span in row.spans:
        if span.flip:
            flips[at] = span.flip
        at += span.size
    return flips


def cell(finding: Finding | None) -> Cell:
    if finding is None:
        return dict.fromkeys(CELL_KEYS)
    return {
        "verdict": finding.verdict,
        "reason": finding.verdict_reason or None,
        "hits": finding.hits,
        "trials": finding.trials,
        "evidence": finding.evidence,
        "observed_at": timestamp(finding.observed_at),
        "origin": finding.origin,
        "confirmed": finding.confirmed,
    }


def finding_line(finding: Finding) -> Line:
    return {
        "record": finding.record_id,
        "repro": finding.repro,
        "fidelity": finding.fidelity,
        "device": finding.device_class,
        "gpu": gpu_of(finding) or None,
        "build": finding.build,
        "check": finding.check_name,
        **cell(finding),
    }


def all_lines(query: QueryDict) -> Iterator[Line]:
    """A line per cell, page after page of records; models after the rows of each."""
    query = query.copy()
    number: int | None = 1
    while number:
        query["page"] = str(number)
        page = build_matrix(query)
        for row in page.rows:
            facts = {"record": row.record.id, "repro": row.repro}
            facts |= {"device": row.device, "gpu": row.gpu}
            for slug, values in cells_of(row, page):
                yield {**facts, "build": slug, "check": "trigger", **values}
        yield from map(finding_line, page.models)
        number = page.window.next


# --- one record ----------------------------------------
def record_lines(page: RecordMatrix) -> Iterator[Line]:
    """A line per check and build that was run, with what the check showed."""
    for row in page.record.findings.all():
        outcome = {"outcome": row.outcome or None, "outcome_reason": row.reason or None}
        yield {**finding_line(row), **outcome}


# --- CSV ----------------------------------------
class Echo:
    """A file that hands back what is written to it, line by line."""

    def write(self, text: str) -> str:
        return text


def as_csv(lines: Iterator[Line], name: str) -> StreamingHttpResponse:
    head = [*CSV_HEAD, *(("outcome", "outcome_reason") if name != "matrix" else ())]
    writer = csv.writer(Echo())

    def rows() -> Iterator[str]:
        yield writer.writerow(head)
        for line in lines:
            yield writer.writerow([plain(line.get(key)) for key in head])

    answer = StreamingHttpResponse(rows(), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return answer


def plain(value: Any) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULA) else text
