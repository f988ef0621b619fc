"""The knowledge base over REST: records, their repros, and look-up."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from kb import documents, lookup
from kb.choices import LANGS, SymptomClass, Upstream
from kb.models import Record
from kb.problems import Problem

NUL = "\x00"


def check_parameters(request: Request, allowed: set[str]) -> None:
    """Refuse a misspelt query parameter instead of ignoring it."""
    unknown = sorted(set(request.query_params) - allowed)
    if unknown:
        names = ", ".join(sorted(allowed)) or _("none")
        raise Problem(
            "unknown_parameter",
            _("Unknown: %(unknown)s. This address takes: %(names)s.")
            % {"unknown": ", ".join(unknown), "names": names},
        )


def wanted_lang(request: Request) -> str | None:
    """?lang=, or None for both languages."""
    lang = request.query_params.get("lang")
    if lang is not None and lang not in LANGS:
        raise Problem("invalid", _("lang must be en or zh, not %r.") % lang)
    return lang


def answer(request: Request, body: dict[str, Any], **kwargs: Any) -> Response:
    """`body`, its bilingual fields flattened where ?lang= asks for it."""
    lang = wanted_lang(request)
    if lang:
        body = {**documents.flatten(body, lang), "lang_used": lang}
    return Response(body, **kwargs)


class Endpoint(APIView):
    """A view of the API. An address with a NUL in it names nothing."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        # PostgreSQL cannot even compare such text.
        if any(NUL in text for text in kwargs.values()):
            raise Problem("not_found", _("No such address: %s") % request.path)
        for name, value in request.query_params.items():
            if NUL in value:
                raise Problem("invalid", f"{name}: {value!r}")


class Paging(CursorPagination):
    """{"items": […], "next": url or null}; limit 1 to 200."""

    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 200
    cursor_query_param = "cursor"

    def decode_cursor(self, request: Request) -> Any:
        cursor = super().decode_cursor(request)
        if cursor and NUL in str(cursor.position):
            raise NotFound(self.invalid_cursor_message)
        return cursor


def listing(
    request: Request,
    view: APIView,
    rows: QuerySet[Any],
    ordering: str,
    item: Callable[[Any], dict[str, Any]],
) -> Response:
    """One page of `rows`, each as `item` shows it."""
    pager = Paging()
    pager.ordering = ordering
    try:
        page = pager.paginate_queryset(rows, request, view)
    except ValidationError as error:  # a position that is no date, say
        raise NotFound(pager.invalid_cursor_message) from error
    items = [item(row) for row in page or []]
    return answer(request, {"items": items, "next": pager.get_next_link()})


def get_record(record_id: str) -> Record:
    record = Record.objects.addressable().filter(id=record_id.upper()).first()
    if record is None:
        raise Problem("unknown_record", _("There is no record %s.") % record_id)
    return record


class RecordList(Endpoint):
    """GET: published records by id."""

    @extend_schema(operation_id="list_records", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request) -> Response:
        check_parameters(
            request,
            {"limit", "cursor", "lang", "symptom_class", "upstream", "component"},
        )
        rows = filtered(request).prefetch_related("findings")
        return listing(request, self, rows, "id", documents.record_item)


def check_choice(request: Request, name: str, known: Collection[str]) -> None:
    """Refuse a value that no row can have."""
    value = request.query_params.get(name)
    if value is not None and value not in known:
        raise Problem("invalid", f"{name}: {value!r}; {', '.join(known)}")


def filtered(request: Request) -> QuerySet[Record]:
    rows = Record.objects.visible()
    for name, choices in (("symptom_class", SymptomClass), ("upstream", Upstream)):
        check_choice(request, name, choices.values)
        if name in request.query_params:
            rows = rows.filter(**{name: request.query_params[name]})
    component = request.query_params.get("component")
    if component is not None:
        ids = [row.id for row in rows if component in row.components]
        rows = rows.filter(id__in=ids)
    return rows


class RecordDetail(Endpoint):
    """GET: one record, whole. A withdrawn one says so in `publication`."""

    @extend_schema(operation_id="get_record", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, record_id: str) -> Response:
        check_parameters(request, {"lang"})
        return answer(request, documents.record_document(get_record(record_id)))


class RecordRepro(Endpoint):
    """GET: the reviewed source of a repro, unchanged."""

    @extend_schema(operation_id="get_repro_source", responses=OpenApiTypes.STR)
    def get(self, request: Request, record_id: str, name: str) -> HttpResponse:
        check_parameters(request, set())
        record = get_record(record_id)
        repro = record.repros.filter(name=name.removesuffix(".py")).first()
        if repro is None:
            raise Problem("unknown_repro", _("%s has no such repro.") % record_id)
        file = f"{record.id}-{repro.name}.py"
        return HttpResponse(
            repro.source,
            content_type="text/x-python; charset=utf-8",
            headers={
                "Content-Disposition": f'inline; filename="{file}"',
                "ETag": f'"{repro.digest}"',
            },
        )


@extend_schema_field(OpenApiTypes.STR)
class PastedText(serializers.Field[str, Any, str, Any]):
    """Any text, also with NUL bytes and lone surrogates in it."""

    default_error_messages = {"invalid": gettext_lazy("Must be text.")}

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return data


class LookupRequest(serializers.Serializer[Any]):
    log = PastedText(default="")
    env = PastedText(default="")
    lang = serializers.ChoiceField(choices=LANGS, allow_null=True, default=None)


class Lookup(Endpoint):
    """POST: a pasted log and environment -> known issues (contract §6)."""

    @extend_schema(
        operation_id="look_up", responses=OpenApiTypes.OBJECT, request=LookupRequest
    )
    def post(self, request: Request) -> Response:
        check_parameters(request, set())
        form = LookupRequest(data=request.data)
        form.is_valid(raise_exception=True)
        try:
            found = lookup.look_up(**form.validated_data)
        except lookup.EmptyPaste as error:
            raise Problem("empty_paste", str(error)) from error
        except lookup.PasteTooLarge as error:
            raise Problem("too_large", str(error)) from error
        return Response(found)


class Nowhere(Endpoint):
    """Every other address below /api/v1/: a problem document, not a page."""

    schema = None

    def get(self, request: Request, **kwargs: Any) -> Response:
        raise Problem("not_found", _("No such address: %s") % request.path)

    post = put = patch = delete = get
