"""/mcp: tools for agents. Who asks is known as in the API; the SDK does the rest."""

from __future__ import annotations

from importlib.util import find_spec
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpResponse
from django.utils.translation import gettext as _
from rest_framework.request import Request
from rest_framework.views import APIView

from kb.problems import Problem
from runner.agents import INSTALL

MISSING = (
    "This site does not offer MCP: the extra mcp is not installed. Whoever runs the "
    f"site adds it in the checkout and starts again: {INSTALL}\n"
)
PLAIN = "text/plain; charset=utf-8"


class Tools(APIView):
    """POST only: a client that asks for a stream or a session is told 405."""

    schema = None
    http_method_names = ["post"]

    def post(self, request: Request) -> HttpResponse:
        if find_spec("mcp") is None:
            return HttpResponse(MISSING, status=501, content_type=PLAIN)
        refuse_other_origins(request)
        # Here, as not every site has the extra, and those that have it need not load
        # it before somebody asks.
        from runner.agents.http import exchange

        response = exchange(request, body_of(request))
        response["Cache-Control"] = "no-store"
        return response

    post.operation_name = "use_tools"  # type: ignore[attr-defined]


def refuse_other_origins(request: Request) -> None:
    """A page of another site may not ask, also where a name is bound to this address.

    Django has compared Host with ALLOWED_HOSTS; a program sends no Origin.
    """
    origin = request.headers.get("Origin", "")
    if not origin or origin in settings.CSRF_TRUSTED_ORIGINS:
        return
    if host_of(origin) != request.get_host().lower():
        raise Problem("forbidden", _("Pages of other sites may not use these tools."))


def host_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def body_of(request: Request) -> bytes:
    try:
        return request._request.body
    except RequestDataTooBig as error:
        raise Problem("too_large", str(error)) from error
