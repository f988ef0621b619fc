"""Lists by cursor: a walk sees every row that was there when it began, once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core import signing
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from rest_framework import serializers
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from kb.api.endpoint import LangQuery, Shape, answer
from kb.problems import Problem

DEFAULT_LIMIT, MAX_LIMIT = 50, 200


class PageQuery(LangQuery):
    limit = serializers.IntegerField(
        min_value=1, max_value=MAX_LIMIT, default=DEFAULT_LIMIT
    )
    cursor = serializers.CharField(
        max_length=300, required=False, help_text="Opaque: follow `next`."
    )


class Pages(CursorPagination):
    """Django REST framework's, with cursors that only this list takes."""

    request: Request

    def encode_cursor(self, cursor: Cursor) -> str:
        return following(self.request, list(cursor))

    def decode_cursor(self, request: Request) -> Cursor | None:
        place = read_cursor(request, request.query_params)
        return Cursor(*place) if place else None


def listing(
    request: Request,
    query: Mapping[str, Any],
    rows: QuerySet[Any],
    order: tuple[str, ...],
    shape: Shape,
) -> Response:
    """One page of `rows`, as `shape` shows it. `order`: the last field is unique."""
    pages = Pages()
    pages.page_size, pages.ordering = query["limit"], order
    items = pages.paginate_queryset(rows, request) or []
    return page(query, shape, items, pages.get_next_link())


def page(
    query: Mapping[str, Any],
    shape: Shape,
    items: list[Any],
    url: str | None,
    **besides: Any,
) -> Response:
    """The envelope of a list; `url`: the address of the next page, if there is one."""
    headers = {"Link": f'<{url}>; rel="next"'} if url else {}
    found = {"items": items, "next": url, **besides}
    return answer(query, shape, found, headers=headers)


def following(request: Request, place: object) -> str:
    """The address of the page that begins at `place`.

    Without a host, which a proxy in front may call otherwise.
    """
    cursor = signer(request).sign_object(place, compress=True)
    return replace_query_param(request.get_full_path(), "cursor", cursor)


def read_cursor(request: Request, query: Mapping[str, Any]) -> Any:
    """The place that `following` was given; None on the first page.

    Signed, so that no cursor is taken that this list did not give.
    """
    cursor = query.get("cursor")
    if cursor is None:
        return None
    try:
        return signer(request).unsign_object(cursor)
    except signing.BadSignature as error:
        said = _("No such cursor: take it from `next` of the page before.")
        errors = [{"pointer": "/cursor", "code": "not_found", "detail": said}]
        raise Problem("not_found", said, errors=errors) from error


def signer(request: Request) -> signing.Signer:
    """Of a list as it was asked for: a search has cursors of another shape.

    Without a time in it: the same page has the same cursor, so the same ETag.
    """
    asked = sorted({*request.query_params} - {"cursor", "limit", "lang"})
    return signing.Signer(salt=" ".join([request.path, *asked]))
