"""Around every answer: a request id, what the page may load, compression."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

GetResponse = Callable[[HttpRequest], HttpResponseBase]
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
PERMISSIONS = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


class RequestIdMiddleware:
    """Gives each request an id (a proxy's own is kept) and echoes it."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        given = request.headers.get("X-Request-Id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        request.request_id = request_id  # type: ignore[attr-defined]
        response = self.get_response(request)
        response.headers["X-Request-Id"] = request_id
        return response


class ContentSecurityPolicyMiddleware:
    """Scripts, styles and requests of this site alone, and nothing inline."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault(
            "Content-Security-Policy", settings.CONTENT_SECURITY_POLICY
        )
        response.headers.setdefault("Permissions-Policy", PERMISSIONS)
        return response


class CompressionMiddleware(GZipMiddleware):
    """Compresses every answer and blurs its length, by which one could guess (BREACH).

    The only secret of a page is its CSRF token, which Django masks anew in each answer,
    and up to so many random bytes are added to each. Cookies are SameSite=Lax, so that
    no other site can ask for a reader's own pages at all.
    """

    max_random_bytes = 200
