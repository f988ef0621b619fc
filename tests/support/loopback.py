"""On the loopback: a port that is free, and a small HTTP server."""

from __future__ import annotations

import socket
import threading
from http.server import ThreadingHTTPServer
from typing import Any, Self

HELD: list[socket.socket] = []


def free_port() -> int:
    """A port for a server that sets SO_REUSEADDR, as they do; nobody else gets it.

    It stays bound, without listening, until this process ends: the kernel gives it to
    no socket that asks for any port.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    HELD.append(held)
    return int(held.getsockname()[1])


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
