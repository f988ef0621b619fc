"""The matrix as JSON: the same cells as the page, without words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, JsonResponse

from kb.findings.results import timestamp
from kb.models import Finding
from runner.pages.matrix import Matrix, MatrixRow, build_matrix, gpu_of
from runner.pages.record_matrix import RecordMatrix

CELL_KEYS = (
    *("verdict", "reason", "hits", "trials", "likely", "flip"),
    *("evidence", "observed_at", "origin"),
)
LIKELY = {"bug": "bug_present", "clean": "bug_absent"}
Cell = dict[str, Any]
Line = dict[str, Any]


def answer(request: HttpRequest, record: RecordMatrix | None) -> JsonResponse:
    """Of all records or of one."""
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


# --- one record ----------------------------------------
def record_lines(page: RecordMatrix) -> Iterator[Line]:
    """A line per check and build that was run, with what the check showed."""
    for row in page.record.findings.all():
        outcome = {"outcome": row.outcome or None, "outcome_reason": row.reason or None}
        yield {**finding_line(row), **outcome}
