"""Lists by cursor: a walk sees every row once, and ends while rows are added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core import signing
from django.db.models import Max, Model, Q, QuerySet
from django.utils.translation import gettext as _
from rest_framework import serializers
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
        max_length=1000, required=False, help_text="Opaque: follow `next`."
    )


@dataclass(frozen=True)
class Order:
    """How a list is sorted: `fields` as in order_by, the last one unique.

    `pin` only grows as rows are added. The first page notes the greatest; a row that
    is added during a walk, wherever it sorts, is not part of that walk.
    """

    fields: tuple[str, ...]
    pin: str = ""


def listing(
    request: Request,
    query: Mapping[str, Any],
    rows: QuerySet[Any],
    order: Order,
    shape: Shape,
) -> Response:
    """One page of `rows`, as `shape` shows it."""
    limit = query["limit"]
    place = read_cursor(request, query)
    if place:
        pin, after = place
        rows = rows.filter(beyond(order, after))
    else:
        pin = rows.aggregate(pin=Max(order.pin))["pin"] if order.pin else None
    if pin is not None:
        rows = rows.filter(**{f"{order.pin}__lte": pin})
    found = list(rows.order_by(*order.fields)[: limit + 1])
    more = None
    if len(found) > limit:
        more = [plain(pin), [plain(value) for value in key(found[limit - 1], order)]]
    return page(request, query, shape, found[:limit], more)


def page(
    request: Request,
    query: Mapping[str, Any],
    shape: Shape,
    items: list[Any],
    more: object,
    **besides: Any,
) -> Response:
    """The envelope of a list; `more` is what the next page's cursor holds, or None."""
    url = None
    if more is not None:
        cursor = signer(request).sign_object(more, compress=True)
        url = replace_query_param(request.build_absolute_uri(), "cursor", cursor)
    headers = {"Link": f'<{url}>; rel="next"'} if url else {}
    found = {"items": items, "next": url, **besides}
    return answer(query, shape, found, headers=headers)


def read_cursor(request: Request, query: Mapping[str, Any]) -> Any:
    """What `page` put into the cursor; None on the first page.

    Signed, so that no cursor is taken that this list did not give.
    """
    cursor = query.get("cursor")
    if cursor is None:
        return None
    try:
        return signer(request).unsign_object(cursor)
    except signing.BadSignature as error:
        said = _("No such cursor: take it from `next` of the page before.")
        errors = [{"pointer": "/cursor", "code": "invalid", "detail": said}]
        raise Problem("invalid", said, errors=errors) from error


def signer(request: Request) -> signing.Signer:
    """Without a time in it: the same page has the same cursor, so the same ETag."""
    return signing.Signer(salt=request.path)


def key(row: Model, order: Order) -> list[Any]:
    return [getattr(row, field.removeprefix("-")) for field in order.fields]


def beyond(order: Order, after: list[Any]) -> Q:
    """Rows that sort after the one with these values."""
    found, same = Q(), Q()
    for field, value in zip(order.fields, after, strict=True):
        name = field.removeprefix("-")
        sign = "lt" if field.startswith("-") else "gt"
        found |= same & Q(**{f"{name}__{sign}": value})
        same &= Q(**{name: value})
    return found


def plain(value: object) -> object:
    """As JSON keeps it; the database reads it back as what it was."""
    if value is None or isinstance(value, str):
        return value
    return value.isoformat() if isinstance(value, datetime) else str(value)
