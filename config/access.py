"""Logins: asked for to read where READ_LOGIN says so, or taken from a proxy."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.backends import RemoteUserBackend
from django.contrib.auth.middleware import PersistentRemoteUserMiddleware
from django.contrib.auth.models import Group
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext as _

from config.middleware import GetResponse
from kb import problems

# For probes and crawlers, which have no account, and for logging in.
OPEN_PATHS = {"/healthz", "/readyz", "/metrics", "/robots.txt", "/favicon.ico"}
OPEN_NAMES = {"login", "theme"}


class ReadLoginMiddleware:
    """Shows nothing to strangers where READ_LOGIN is set."""

    def __init__(self, get_response: GetResponse) -> None:
        if not settings.READ_LOGIN:
            raise MiddlewareNotUsed
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        match = request.resolver_match
        is_open = request.path in OPEN_PATHS or request.path.startswith("/admin/")
        if is_open or (match and match.url_name in OPEN_NAMES):
            return None
        if request.user.is_authenticated:
            return None
        if request.path.startswith("/api/"):
            # Tokens are known to the API itself (runner.api.rules).
            return None if "Authorization" in request.headers else refusal(request)
        return redirect_to_login(request.get_full_path(), reverse("login"))


def refusal(request: HttpRequest) -> JsonResponse:
    """As the API itself refuses: a problem document."""
    problem = problems.Problem("unauthenticated", _("Log in to read this site."))
    body = problems.document(problem, getattr(request, "request_id", ""))
    return JsonResponse(
        body,
        status=problem.status_code,
        content_type="application/problem+json",
        headers={"WWW-Authenticate": "Bearer"},
    )


class ProxyUserMiddleware(PersistentRemoteUserMiddleware):
    """Takes the user from the header that REMOTE_USER_HEADER names.

    Only for a site whose proxy sets or removes that header on every request.
    """

    def __init__(self, get_response: Any) -> None:
        if not settings.REMOTE_USER_HEADER:
            raise MiddlewareNotUsed
        super().__init__(get_response)

    @property
    def header(self) -> str:  # type: ignore[override]
        name = settings.REMOTE_USER_HEADER.upper().replace("-", "_")
        return f"HTTP_{name}"


class ProxyUserBackend(RemoteUserBackend):
    """Knows whom the proxy knows; a new user starts in REMOTE_USER_GROUP."""

    def configure_user(
        self, request: HttpRequest | None, user: Any, created: bool = True
    ) -> Any:
        group = Group.objects.filter(name=settings.REMOTE_USER_GROUP).first()
        if created and group:
            user.groups.add(group)
        return user
