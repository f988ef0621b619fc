"""Errors of the API as problem documents (RFC 9457), and the pages behind them."""

from __future__ import annotations

import errno
import json
import sqlite3
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse, UnreadablePostError
from django.utils.functional import Promise
from django.utils.translation import gettext as _, gettext_lazy
from rest_framework import exceptions


@dataclass(frozen=True)
class Kind:
    """One stable type of problem; `code` with dashes is its address."""

    status: int
    title: str | Promise
    help: str | Promise

    @staticmethod
    def slug(code: str) -> str:
        return code.replace("_", "-")


KINDS: dict[str, Kind] = {
    "unknown_record": Kind(
        404,
        gettext_lazy("No such record"),
        gettext_lazy("Ids look like NAN-0007; /api/v1/records lists them."),
    ),
    "unknown_repro": Kind(
        404,
        gettext_lazy("No such repro"),
        gettext_lazy("The record's `repros` lists the names of its repros."),
    ),
    "unknown_build": Kind(
        404,
        gettext_lazy("No such torch build"),
        gettext_lazy("/api/v1/builds lists the builds this site knows."),
    ),
    "unknown_run": Kind(
        404, gettext_lazy("No such run"), gettext_lazy("A run's id is a UUID.")
    ),
    "unknown_sweep": Kind(
        404, gettext_lazy("No such sweep"), gettext_lazy("A sweep's id is a UUID.")
    ),
    "unknown_capture": Kind(
        404,
        gettext_lazy("No such capture"),
        gettext_lazy(
            "Captures are kept for a week, or until their address deletes them; "
            "whoever has capture.json can send it again."
        ),
    ),
    "unknown_evidence": Kind(
        404,
        gettext_lazy("No such evidence"),
        gettext_lazy("Evidence is addressed by the digest that a run reports."),
    ),
    "not_found": Kind(
        404,
        gettext_lazy("No such address"),
        gettext_lazy("/api/v1/openapi.json describes every address."),
    ),
    "invalid": Kind(
        400,
        gettext_lazy("The request is not valid"),
        gettext_lazy("`errors` names each field and what is wrong with it."),
    ),
    "invalid_values": Kind(
        422,
        gettext_lazy("The request is not valid"),
        gettext_lazy("`errors` names each field and what is wrong with it."),
    ),
    "unknown_parameter": Kind(
        400,
        gettext_lazy("Unknown parameter or field"),
        gettext_lazy(
            "A misspelt name is refused, never ignored; `errors` lists each, and "
            "`detail` the names that are known."
        ),
    ),
    "malformed": Kind(
        400,
        gettext_lazy("The body cannot be read"),
        gettext_lazy("Send UTF-8 JSON with Content-Type: application/json."),
    ),
    "empty_paste": Kind(
        422,
        gettext_lazy("Nothing was pasted"),
        gettext_lazy("Send a warning, a traceback, log lines or a package list."),
    ),
    "too_large": Kind(
        413,
        gettext_lazy("Too much text"),
        gettext_lazy(
            "That is more than 1 MiB. Paste the part around the first warning or "
            "traceback."
        ),
    ),
    "address_too_long": Kind(
        414,
        gettext_lazy("The address is too long"),
        gettext_lazy(
            "Send fewer or shorter parameters; a look-up takes its text in the body."
        ),
    ),
    "evidence_refused": Kind(
        422,
        gettext_lazy("This evidence is not accepted"),
        gettext_lazy(
            "`detail` says why. Evidence is sent as the harness or the single file "
            "wrote it (--json), for a repro that this site has."
        ),
    ),
    "capture_refused": Kind(
        422,
        gettext_lazy("This capture is not accepted"),
        gettext_lazy(
            "`detail` says why and what to do. A capture is sent as nan_probe wrote "
            "it: the bytes of capture.json are the body."
        ),
    ),
    "run_refused": Kind(
        409,
        gettext_lazy("This repro cannot run there"),
        gettext_lazy("`detail` says what is missing and what would help."),
    ),
    "run_over": Kind(
        409,
        gettext_lazy("The run is over"),
        gettext_lazy("Only a queued or running run can be cancelled."),
    ),
    "unauthenticated": Kind(
        401,
        gettext_lazy("Log in first"),
        gettext_lazy(
            "Only known users may do this: log in, or send a token that is valid as "
            "Authorization: Bearer dtn_…"
        ),
    ),
    "forbidden": Kind(
        403,
        gettext_lazy("Not allowed"),
        gettext_lazy(
            "Your account or token may not do this; `detail` says what it lacks. A "
            "browser's request must carry the page's CSRF token."
        ),
    ),
    "method_not_allowed": Kind(
        405,
        gettext_lazy("Method not allowed"),
        gettext_lazy("The Allow header lists the methods of this address."),
    ),
    "unsupported_media_type": Kind(
        415,
        gettext_lazy("Unsupported media type"),
        gettext_lazy("Send Content-Type: application/json."),
    ),
    "not_acceptable": Kind(
        406,
        gettext_lazy("Not acceptable"),
        gettext_lazy("The API answers application/json, and programs as files."),
    ),
    "throttled": Kind(
        429,
        gettext_lazy("Too many requests"),
        gettext_lazy("Try again after the time in Retry-After."),
    ),
    "busy": Kind(
        503,
        gettext_lazy("The site is busy"),
        gettext_lazy("Try again after the time in Retry-After."),
    ),
    "internal": Kind(
        500,
        gettext_lazy("The site is at fault"),
        gettext_lazy(
            "Try again. If it persists, report what you sent and `request_id`."
        ),
    ),
}
# Django REST framework's own exceptions, by their default code.
FRAMEWORK_CODES = {
    "not_found": "not_found",
    "parse_error": "malformed",
    "invalid": "invalid",
    "not_authenticated": "unauthenticated",
    "authentication_failed": "unauthenticated",
    "permission_denied": "forbidden",
    "method_not_allowed": "method_not_allowed",
    "unsupported_media_type": "unsupported_media_type",
    "not_acceptable": "not_acceptable",
    "throttled": "throttled",
}
# What the framework says of these leaves out what is accepted.
TELL_WHAT_HELPS = ("method_not_allowed", "not_acceptable", "unsupported_media_type")
OF_ALL = "non_field_errors"


# Seconds after which it is worth asking again.
RETRY_S = 5
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
# Of the others of SQLite, as a table that is missing, waiting cures none.
SQLITE = (
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL),
    *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY),
)


class Problem(exceptions.APIException):
    """Raise to answer with the problem document of `code` (a key of KINDS)."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: list[dict[str, str]] | None = None,
        status: int | None = None,
        wait: int | None = None,
    ) -> None:
        """`wait`: seconds until another try makes sense (Retry-After)."""
        super().__init__(detail, code)
        self.code = code
        self.errors = errors or []
        self.wait = wait
        self.status_code = status or KINDS[code].status


def kind_of(slug: str) -> Kind | None:
    """The type of problem that a page's address names."""
    return KINDS.get(slug.replace("-", "_"))


def field_errors(detail: Any, pointer: str = "") -> list[dict[str, str]]:
    """A serializer's error tree as a flat list of {pointer, code, detail}."""
    if isinstance(detail, dict):
        return [
            error
            for key, value in detail.items()
            for error in field_errors(
                value, pointer if key == OF_ALL else f"{pointer}/{key}"
            )
        ]
    if isinstance(detail, list):
        return [error for value in detail for error in field_errors(value, pointer)]
    code = getattr(detail, "code", "invalid")
    return [{"pointer": pointer or "/", "code": code, "detail": str(detail)}]


def as_problem(error: exceptions.APIException) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, exceptions.ValidationError):
        errors = field_errors(error.detail)
        detail = "; ".join(f"{e['pointer'][1:]}: {e['detail']}" for e in errors[:5])
        return Problem("invalid", detail.removeprefix(": "), errors=errors)
    code = FRAMEWORK_CODES.get(error.default_code, "invalid")
    detail = str(error.detail)
    if code in TELL_WHAT_HELPS:
        detail += f" {KINDS[code].help}"
    return Problem(code, detail, status=error.status_code)


def response(request: Any, problem: Problem, wait: float | None = None) -> HttpResponse:
    """The problem as the answer to a request, with the headers that go with it."""
    status = problem.status_code
    headers = {"Retry-After": str(int(wait))} if wait else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    document = {
        "type": f"/problems/{Kind.slug(problem.code)}",
        "title": str(KINDS[problem.code].title),
        "status": status,
        "detail": str(problem.detail),
        "code": problem.code,
        "errors": problem.errors,
        "request_id": getattr(request, "request_id", ""),
    }
    # What cannot be written as UTF-8, half of a surrogate pair, stays JSON's escape.
    body = json.dumps(document, ensure_ascii=False).encode("utf-8", "backslashreplace")
    return HttpResponse(body, "application/problem+json", status, headers=headers)


def exception_handler(error: Exception, context: Any) -> HttpResponse | None:
    """Every refusal of the API as application/problem+json; bugs stay 500."""
    if isinstance(error, Http404):
        error = Problem("not_found", _("Nothing here."))
    if isinstance(error, PermissionDenied):
        error = Problem("forbidden", str(error) or _("Not allowed."))
    if isinstance(error, UnreadablePostError):
        error = Problem("malformed", _("The connection ended before the body did."))
    if not isinstance(error, exceptions.APIException):
        return None
    wait = getattr(error, "wait", None)
    return response(context["request"], as_problem(error), wait)


def is_outage(error: BaseException | None) -> bool:
    """Whether the database is away, locked or full, or no file can be written.

    PostgreSQL's and SQLite's own words come as the cause of Django's exception.
    """
    if isinstance(error, OSError):
        return error.errno in DISK_FULL
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return code is None or code & 0xFF in SQLITE
