"""The tools over standard input and output, for whoever DOESITNAN_TOKEN names."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import close_old_connections
from django.http import HttpRequest
from rest_framework.request import Request

from runner.agents import server
from runner.api.tokens import TokenAuthentication


def serve() -> None:
    """Until standard input ends. Raises Problem where the token is not valid."""
    _ = asked().user
    server.ASKED.set(asked_now)
    async_to_sync(server.build().run_stdio_async)()


def asked_now() -> Request:
    """A client may be quiet for hours, and the database have gone away meanwhile."""
    close_old_connections()
    return asked()


def asked() -> Request:
    """A request as a program with that token sends it: the same checks read it."""
    request = HttpRequest()
    if settings.DOESITNAN_TOKEN:
        request.META["HTTP_AUTHORIZATION"] = f"Bearer {settings.DOESITNAN_TOKEN}"
    return Request(request, authenticators=[TokenAuthentication()])
