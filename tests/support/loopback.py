"""A small HTTP server on the loopback, as long as a `with` block lasts."""

from __future__ import annotations

import threading
from http.server import ThreadingHTTPServer
from typing import Any, Self


class LoopbackServer:
    """Serves with `handler` on a port that was free; ends with all that it answers."""

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
