"""One request of the web server, taken through the SDK's streamable HTTP.

Stateless and answered as JSON, so any process may answer any request. The site is WSGI:
each request has an event loop of its own for as long as it lasts, and the tools run on
the request's own thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
from asgiref.sync import async_to_sync
from django.http import HttpResponse
from mcp.server.transport_security import TransportSecuritySettings
from rest_framework.request import Request

from runner.agents import server

Message = dict[str, Any]
# What the protocol reads; tokens and cookies are read before.
FORWARDED = ("accept", "content-type", "content-length", "host", "mcp-")
# Host and Origin were compared before, with what the site allows.
COMPARED = TransportSecuritySettings(enable_dns_rebinding_protection=False)


def exchange(request: Request, body: bytes) -> HttpResponse:
    mark = server.ASKED.set(lambda: request)
    try:
        start, content = async_to_sync(carried)(scope_of(request), body)
    finally:
        server.ASKED.reset(mark)
    response = HttpResponse(content, status=start["status"])
    del response["Content-Type"]
    for name, value in start["headers"]:
        if name != b"content-length":
            response[name.decode("latin-1")] = value.decode("latin-1")
    return response


async def carried(scope: Message, body: bytes) -> tuple[Message, bytes]:
    """The start of the response, and its content."""
    sent: list[Any] = []
    unread = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if not unread:
            await anyio.sleep_forever()  # Nobody here sees a client leave.
        return unread.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    served = server.build()
    app = served.streamable_http_app(
        streamable_http_path=scope["path"],
        json_response=True,
        stateless_http=True,
        transport_security=COMPARED,
    )
    async with served.session_manager.run():
        await app(scope, receive, send)
    start, *rest = sent
    return start, b"".join(message.get("body", b"") for message in rest)


def scope_of(request: Request) -> Message:
    path = request.path
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": list(headers_of(request)),
    }


def headers_of(request: Request) -> Iterator[tuple[bytes, bytes]]:
    for name, value in request.headers.items():
        if name.lower().startswith(FORWARDED):
            yield name.lower().encode("latin-1"), value.encode("latin-1")
