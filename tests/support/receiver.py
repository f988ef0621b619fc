"""A receiver of webhooks on the loopback, which keeps what it is sent."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.loopback import LoopbackServer


class Receiver(LoopbackServer):
    """Answers `status` to every POST; `got` has (path, headers, body) of each."""

    def __init__(self) -> None:
        self.status = 204
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((self.path, dict(self.headers), body))
                self.send_response(receiver.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Tests print nothing."""

        super().__init__(Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?room=1"

    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _path, _headers, body in self.got]
