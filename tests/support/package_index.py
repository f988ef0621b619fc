"""Package indexes on the loopback (PEP 503), and a way out that is shut."""

from __future__ import annotations

import os
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.support.loopback import LoopbackServer


class Handler(SimpleHTTPRequestHandler):
    """Lists folders as links, which is what an index is; notes who asked for what."""

    def __init__(self, *arguments: Any, asked: list[str], **options: Any) -> None:
        self.asked = asked
        super().__init__(*arguments, **options)

    def do_GET(self) -> None:
        self.asked.append(self.path)
        super().do_GET()

    def do_CONNECT(self) -> None:
        """As a proxy: every address outside is refused, so that none is reached."""
        self.asked.append(f"CONNECT {self.path}")
        # Without a page, for which a client that gave up would not wait.
        self.send_response(502)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Tests print nothing."""


class PackageIndexes(LoopbackServer):
    """`<address>/<name>/` is an index for each folder `root/<name>/<project>/*.whl`."""

    def __init__(self, root: Path) -> None:
        self.asked: list[str] = []
        super().__init__(partial(Handler, directory=str(root), asked=self.asked))

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        """What keeps a process away from every address but this one."""
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), self.address)
        proxies |= {name.lower(): value for name, value in proxies.items()}
        # An address that is refused is refused the second time, too.
        once = {"PIP_RETRIES": "0", "UV_HTTP_RETRIES": "0"}
        return {**proxies, **once, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}

    def alone(self, name: str) -> dict[str, str]:
        """The same, and this index in place of all that pip is configured with."""
        return self.environ | {
            "PIP_INDEX_URL": f"{self.address}/{name}/",
            "PIP_EXTRA_INDEX_URL": "",
            "PIP_FIND_LINKS": "",
            "PIP_CONFIG_FILE": os.devnull,
        }
