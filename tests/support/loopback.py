"""On the loopback: a port that is free, and a small HTTP server."""

from __future__ import annotations

import socket
import threading
from http.server import ThreadingHTTPServer
from typing import Any, Self


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class LoopbackServer:
    """Serves with `handler` while a `with` block lasts; ends with all it answers."""

    def __init__(self, handler: Any) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def port(self) -> int:
        return int(self.server.server_port)
