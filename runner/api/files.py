"""Files to take away, over HTTP: a record's repro, the doctor, the command line."""

from __future__ import annotations

import hashlib
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from kb.addresses import base_address
from kb.api.endpoint import Endpoint, Query, is_known, operation
from kb.api.fields import Choice
from kb.api.views import RECORD_ID, get_record
from kb.search.index.generation import current_generation
from runner.api.runs import wanted_repro
from runner.takeaway import wheel
from runner.takeaway.doctor import doctor
from runner.takeaway.lint import lint
from runner.takeaway.pipe import pipe_client
from runner.takeaway.single_file import file_name, single_file

FILE, SOURCE = "file", "source"
PYTHON: dict[int | tuple[int, str], Any] = {(200, "text/x-python"): OpenApiTypes.STR}


def python_file(request: Request, text: str, name: str) -> HttpResponseBase:
    """`text` as a file to save; 304 to whoever has it already."""
    return file(request, text.encode(), "text/x-python; charset=utf-8", "inline", name)


def file(
    request: Request, data: bytes, kind: str, shown: str, name: str
) -> HttpResponseBase:
    etag = f'"{hashlib.sha256(data).hexdigest()}"'
    if is_known(request, etag):
        return Response(status=304, headers={"ETag": etag})
    disposition = f'{shown}; filename="{name}"'
    headers = {"Content-Disposition": disposition, "ETag": etag}
    return HttpResponse(data, content_type=kind, headers=headers)


class AnyKind(JSONRenderer):
    """Matches every Accept: a file is sent as what it is."""

    media_type = "*/*"


class File(Endpoint):
    renderer_classes = (JSONRenderer, AnyKind)


class FormQuery(Query):
    form = Choice(
        choices=[FILE, SOURCE], default=FILE, help_text="source: as it was reviewed"
    )


NAME = OpenApiParameter(
    "name",
    location=OpenApiParameter.PATH,
    description="Of the record's `repros`, with or without .py.",
    examples=[OpenApiExample("repro", "repro.py")],
)


class SingleFile(File):
    @operation(
        "get_single_file",
        PYTHON,
        query=FormQuery,
        parameters=[RECORD_ID, NAME],
        # "affected" is a name, too, and that address takes POST only.
        problems=["unknown_record", "unknown_repro", "method_not_allowed"],
        tags=["files"],
    )
    def get(
        self, request: Request, record_id: str, name: str, query: dict[str, Any]
    ) -> HttpResponseBase:
        """A repro as one standalone file; ?form=source gives its source."""
        repro = wanted_repro(get_record(record_id), name.removesuffix(".py"))
        text = repro.source if query["form"] == SOURCE else single_file(repro)
        return python_file(request, text, file_name(repro))


class Doctor(File):
    @operation("get_doctor", PYTHON, tags=["files"])
    def get(self, request: Request, query: dict[str, Any]) -> HttpResponseBase:
        """Every published repro in one file, for the user's own environment."""
        return python_file(request, doctor(), "doctor.py")


class Linter(File):
    @operation("get_linter", PYTHON, tags=["files"])
    def get(self, request: Request, query: dict[str, Any]) -> HttpResponseBase:
        """The rules of every published record in one file: `python lint.py PATH`."""
        return python_file(request, lint(), "lint.py")


class UserCommand(File):
    @operation("get_user_command", PYTHON, tags=["files"])
    def get(self, request: Request, query: dict[str, Any]) -> HttpResponseBase:
        """The command line for users: `python train.py 2>&1 | python doesitnan.py`."""
        text = pipe_client(base_address(request))
        return python_file(request, text, "doesitnan.py")


VERSION = OpenApiParameter(
    "version",
    location=OpenApiParameter.PATH,
    description="Any: another than the wheel's leads to that.",
    examples=[OpenApiExample("newest", "0")],
)


class ClientWheel(File):
    @operation(
        "get_client",
        {(200, "application/zip"): OpenApiTypes.BINARY, 302: None},
        parameters=[VERSION],
        tags=["files"],
    )
    def get(
        self, request: Request, version: str, query: dict[str, Any]
    ) -> HttpResponseBase:
        """The client as a wheel: `uvx --from URL doesitnan lookup train.log`.

        Its version changes with what is in it.
        """
        made = wheel.of_site(current_generation(), base_address(request))
        if version != made.version:
            return redirect("api-client-wheel", made.version)
        return file(request, made.data, "application/zip", "attachment", made.name)
