"""What all operations of the API share: one declaration that checks and documents.

`operation` stands on every handler: it names the operation, reads and checks the query
and the body by their shapes, and describes parameters, answers and problems in
OpenAPI. What is not declared is refused.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpResponseNotModified
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags
from django.utils.translation import gettext as _
from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_serializer,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from kb.api.fields import Choice
from kb.choices import LANGS
from kb.languages import HTML_TAG
from kb.problems import KINDS, Problem

NUL = "\x00"
# Keep it, and ask each time whether it is still so: that costs a 304.
REVALIDATE = "no-cache"
# What an address with a digest in it answers never changes.
IMMUTABLE = "public, max-age=31536000, immutable"
PACKAGES = ("kb", "runner")
# gunicorn reads twice as much (config/gunicorn.py) and refuses the rest itself.
MAX_ADDRESS = 4096
READS = ("GET", "HEAD")
# Of any operation: a misspelt parameter, a token that is not valid, a wrong Accept; and
# faults of the site (kb.pages.faults).
USUAL = (
    *("unknown_parameter", "invalid", "unauthenticated", "not_acceptable"),
    *("address_too_long", "busy", "internal"),
)
# A browser's session sends a CSRF token with whatever it sends.
OF_A_BODY = ("malformed", "too_large", "unsupported_media_type", "forbidden")
# What a page of another site may send and read; never a token or a cookie.
CORS_HEADERS = "Accept-Language, Content-Type, If-None-Match"
CORS_EXPOSED = "ETag, Link, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id"

Shape = type[serializers.Serializer[Any]]


class FieldError(serializers.Serializer[Any]):
    """One thing that is wrong; `pointer` names the parameter or field."""

    pointer = serializers.CharField()
    code = serializers.CharField()
    detail = serializers.CharField()


@extend_schema_serializer(component_name="Problem")
class ProblemShape(serializers.Serializer[Any]):
    """A refusal (RFC 9457). `type` is stable and has a page; switch on `code`."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.ChoiceField(choices=sorted(KINDS))
    errors = FieldError(many=True)  # type: ignore[assignment]
    request_id = serializers.CharField(allow_blank=True)


class Query(serializers.Serializer[Any]):
    """The query parameters of an address; this one takes none."""


class LangQuery(Query):
    lang = Choice(
        choices=LANGS,
        required=False,
        help_text="One language: each {en, zh} becomes its text; adds `lang_used`.",
    )


class NoBody(serializers.Serializer[Any]):
    """Nothing: an empty body or {}."""


def operation(
    name: str,
    answers: Mapping[int | tuple[int, str], Any],
    *,
    query: Shape = Query,
    body: Shape | None = None,
    reads_body: Shape | None = None,
    parameters: Iterable[OpenApiParameter] = (),
    problems: Iterable[str] = (),
    **schema: Any,
) -> Callable[[Callable[..., Any]], Any]:
    """Declare a handler, which is called with the checked `query` and `body`.

    `answers`: status -> shape. `problems`: codes besides those that any may give. A
    handler that reads the body's bytes itself names their shape as `reads_body`.
    """
    sent = body or reads_body
    codes = [*USUAL, *(OF_A_BODY if sent else ()), *problems]

    def declare(handler: Callable[..., Any]) -> Any:
        @functools.wraps(handler)
        def checked(self: Any, request: Request, **kwargs: Any) -> Any:
            kwargs["query"] = checked_query(request, query)
            if body and not (body is NoBody and not is_json(request)):
                kwargs["body"] = checked_body(request, body)
            return handler(self, request, **kwargs)

        checked.operation_name = name  # type: ignore[attr-defined]
        return extend_schema(
            operation_id=name,
            summary=(handler.__doc__ or "").partition("\n")[0].rstrip("."),
            parameters=[*parameters, *([query] if query is not Query else [])],
            request=sent if sent is not NoBody else None,
            responses={**answers, **refusals(codes)},
            **schema,
        )(checked)

    return declare


def is_json(request: Request) -> bool:
    return str(request.content_type).startswith("application/json")


def refusals(codes: Iterable[str]) -> dict[Any, OpenApiResponse]:
    """The problem documents of an operation: one response for each status."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(KINDS[code].status, []).append(code)
    return {
        (status, "application/problem+json"): OpenApiResponse(
            ProblemShape,
            HTTPStatus(status).phrase
            + ": "
            + ", ".join(f"`{code}`" for code in dict.fromkeys(found)),
        )
        for status, found in sorted(by_status.items())
    }


def checked_query(request: Request, shape: Shape) -> dict[str, Any]:
    """The query by its shape. A misspelt parameter is refused, never ignored."""
    if len(request.get_full_path()) > MAX_ADDRESS:
        raise Problem(
            "address_too_long",
            _("The address has more than %d characters.") % MAX_ADDRESS,
        )
    sent = request.query_params
    refuse_unknown(set(sent), shape, _("parameter"))
    lists = lists_in(shape)
    # As values, not as a form: in a form an empty text counts as nothing sent.
    values = {
        name: sent.getlist(name) if name in lists else sent[name] for name in sent
    }
    return checked_by(shape, values)


def checked_body(request: Request, shape: Shape) -> dict[str, Any]:
    """The body by its shape; any other field is refused by name."""
    try:
        sent = request.data
    except RequestDataTooBig as error:
        raise Problem("too_large", str(error)) from error
    if isinstance(sent, Mapping):
        refuse_unknown(set(sent), shape, _("field"))
    return checked_by(shape, sent)


def checked_by(shape: Shape, sent: Any) -> dict[str, Any]:
    """What was sent as the shape reads it. Raises ValidationError."""
    try:
        return dict(serializer(shape).run_validation(sent))
    except serializers.ValidationError:
        # Of nothing at all only a serializer of its own says what is missing.
        shape(data=sent).is_valid(raise_exception=True)
        raise


@functools.cache
def names_in(shape: Shape) -> tuple[str, ...]:
    return tuple(serializer(shape).fields)


@functools.cache
def lists_in(shape: Shape) -> frozenset[str]:
    """The parameters that may be repeated."""
    fields = serializer(shape).fields.items()
    return frozenset(
        name for name, field in fields if isinstance(field, serializers.ListField)
    )


def refuse_unknown(given: set[str], shape: Shape, what: str) -> None:
    allowed = names_in(shape)
    unknown = sorted(given.difference(allowed))
    if not unknown:
        return
    shown = [name[:80] for name in unknown[:20]]
    raise Problem(
        "unknown_parameter",
        _("Unknown %(what)s: %(unknown)s. Known here: %(names)s.")
        % {
            "what": what,
            "unknown": ", ".join(shown),
            "names": ", ".join(allowed) or _("none"),
        },
        errors=[
            {"pointer": f"/{name}", "code": "unknown", "detail": _("Unknown.")}
            for name in shown
        ],
    )


def shown(query: Mapping[str, Any], shape: Shape, found: Any, **context: Any) -> Any:
    """`found` as the shape shows it, in one language where ?lang= asks for it.

    `context` holds flags, so few serializers are ever made.
    """
    return serializer(shape, lang=query.get("lang"), **context).to_representation(found)


@functools.cache
def serializer(shape: Shape, **context: Any) -> serializers.Serializer[Any]:
    """Made once: DRF copies each nested field anew for every instance.

    Neither to validate nor to represent changes anything in it, so threads share it.
    """
    return shape(context=context)


def answer(
    query: Mapping[str, Any], shape: Shape, found: Any, **kwargs: Any
) -> Response:
    return Response(shown(query, shape, found), **kwargs)


@functools.cache
def code_digest() -> str:
    """Of the site's code: the same rows answer otherwise after an upgrade."""
    found = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((settings.BASE_DIR / package).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def revalidated(
    request: Request, version: Iterable[object], make: Callable[[], Any]
) -> Any:
    """What `make` answers, or 304 where the client has this `version` already.

    `version` is whatever decides the content, and cheaper than the content.
    """
    parts = [code_digest(), settings.SITE_URL, *map(str, version)]
    tag = f'"{hashlib.sha256(NUL.join(parts).encode()).hexdigest()[:32]}"'
    response = Response(status=304) if is_known(request, tag) else make()
    response["ETag"] = tag
    return response


def is_known(request: Request, tag: str) -> bool:
    """Whether If-None-Match names `tag`, by weak comparison (RFC 9110)."""
    sent = parse_etags(request.headers.get("If-None-Match", ""))
    return "*" in sent or tag in {item.removeprefix("W/") for item in sent}


class Endpoint(APIView):
    """A view of the API. Reads are public, revalidated, and open to other origins."""

    # A POST that only reads: other origins may send it, too.
    reads_by_post = False

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        # PostgreSQL cannot even compare such text.
        if any(NUL in text for text in kwargs.values()):
            raise Problem("not_found", _("No such address: %s") % request.path)

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """The methods, also for a browser that asks before another origin's call."""
        response = Response(status=204)
        if not settings.READ_LOGIN:
            methods = [*READS, *(["POST"] if self.reads_by_post else [])]
            response["Access-Control-Allow-Methods"] = ", ".join(methods)
            response["Access-Control-Allow-Headers"] = CORS_HEADERS
            response["Access-Control-Max-Age"] = "86400"
        return response

    def finalize_response(
        self, request: Request, response: Any, *args: Any, **kwargs: Any
    ) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        said = getattr(response, "data", None)
        if isinstance(said, dict) and (lang := said.get("lang_used")):
            response["Content-Language"] = HTML_TAG[lang]
        is_read = request.method in READS
        if is_read and response.status_code == 200 and "ETag" not in response:
            response = by_content(request, response)
        kept = REVALIDATE if is_read and response.status_code < 400 else "no-store"
        response.headers.setdefault("Cache-Control", kept)
        if settings.READ_LOGIN:
            response.headers["Cache-Control"] = f"private, {kept}"
            patch_vary_headers(response, ("Authorization", "Cookie"))
        elif is_read or self.reads_by_post or request.method == "OPTIONS":
            response.headers["Access-Control-Allow-Origin"] = "*"
            response.headers["Access-Control-Expose-Headers"] = CORS_EXPOSED
        return response


def by_content(request: Request, response: Response) -> HttpResponseBase:
    """The answer under the digest of its bytes; 304 where the client has them."""
    content = response.render().content
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    response["ETag"] = tag
    if not is_known(request, tag):
        return response
    unchanged = HttpResponseNotModified(headers=dict(response.headers))
    del unchanged["Content-Type"]
    return unchanged
