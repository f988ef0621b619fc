"""The site under clients that are slow on purpose, alone and behind the proxy."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

from django.test import SimpleTestCase, tag

from tests import ROOT
from tests.support import slow_clients
from tests.support.loopback import LoopbackServer, free_port
from tests.support.sites import Site, wait_for

READERS = 40
PAGE = "/en/"
# With against without the attack: what the cores are busy with besides is in both.
TIMES = 10
STOP_S = 60
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
# Everything that nginx writes stays in the test's folder.
AROUND = """
%(user)s
daemon off;
pid nginx.pid;
error_log nginx.log;
events { worker_connections 4096; }
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include site.conf;
}
"""


class ProgramsTest(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    @contextmanager
    def program(
        self, port: int, *command: str, env: dict[str, str] | None = None
    ) -> Iterator[None]:
        process = subprocess.Popen(command, env=env, cwd=ROOT)
        try:
            wait_for(
                lambda: process.poll() is not None or listens(port), f"port {port}"
            )
            self.assertIsNone(process.poll(), f"{command[0]} ended")
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_S)

    @contextmanager
    def site(self, **settings: str) -> Iterator[int]:
        """The web server of `manage.py up` over an empty knowledge base."""
        site = Site(self.folder / "site")
        # Pages from memory are over before the noise of an attack is worth a thing.
        site.environ |= {"PAGE_CACHE_SECONDS": "0", **settings}
        site.migrate()
        site.copy_static()
        port = free_port()
        command = [sys.executable, "-m", "gunicorn", "-c", "python:config.gunicorn"]
        bound = ["--bind", f"127.0.0.1:{port}"]
        with self.program(port, *command, *bound, env=site.environ):
            yield port

    @contextmanager
    def nginx(self, behind: int) -> Iterator[int]:
        """deploy/nginx.conf with other ports."""
        if not NGINX:
            self.skipTest("nginx is not installed")
        port = free_port()
        text = (ROOT / "deploy" / "nginx.conf").read_text()
        for shipped, here in (
            ("listen 80;", f"listen 127.0.0.1:{port};"),
            ("server 127.0.0.1:8000;", f"server 127.0.0.1:{behind};"),
        ):
            self.assertEqual(text.count(shipped), 1)
            text = text.replace(shipped, here)
        (self.folder / "site.conf").write_text(text)
        user = "user root;" if os.geteuid() == 0 else ""
        (self.folder / "nginx.conf").write_text(AROUND % {"user": user})
        command = [NGINX, "-p", str(self.folder), "-c", "nginx.conf", "-e", "stderr"]
        checked = subprocess.run([*command, "-t"], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertNotIn("[warn]", checked.stderr)
        with self.program(port, *command):
            yield port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@tag("servers", "any_database")  # for their length
class SlowClientsTest(ProgramsTest):
    def test_readers_are_answered_by_the_web_server(self) -> None:
        with self.site() as port:
            self.readers_are_answered(port)

    def test_readers_are_answered_through_the_proxy(self) -> None:
        with self.site(NUM_PROXIES="1") as site, self.nginx(site) as port:
            self.readers_are_answered(port)

    def readers_are_answered(self, port: int) -> None:
        slow_clients.seconds_of(port, PAGE, 4)  # both processes know the page
        calm = slow_clients.p95(slow_clients.seconds_of(port, PAGE, READERS))
        with slow_clients.attack(port) as attack:
            self.assertTrue(attack.refused < len(attack.begins) / 10)
            beset = slow_clients.p95(slow_clients.seconds_of(port, PAGE, READERS))
        self.assertLess(beset, TIMES * calm)


class Told(BaseHTTPRequestHandler):
    """A site that keeps what it was told."""

    heard: ClassVar[list[tuple[str, dict[str, str]]]] = []

    def do_GET(self) -> None:
        self.heard.append((self.path, dict(self.headers)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@tag("servers")
class ProxyTest(ProgramsTest):
    def setUp(self) -> None:
        super().setUp()
        Told.heard.clear()
        site = self.enterContext(LoopbackServer(Told))
        self.port = self.enterContext(self.nginx(site.port))

    def get(self, path: str, headers: dict[str, str]) -> int:
        client = HTTPConnection("127.0.0.1", self.port, timeout=STOP_S)
        try:
            client.request("GET", path, headers=headers)
            return client.getresponse().status
        finally:
            client.close()

    def test_what_a_client_says_about_itself_goes_away(self) -> None:
        forged = "SCRIPT_NAME Script-Name Remote-User REMOTE_USER X-Remote-User"
        forged += " X-Forwarded-User X-Forwarded-Host X-Forwarded-Port Forwarded"
        headers = dict.fromkeys(forged.split(), "forged")
        headers |= {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "https"}
        self.assertEqual(self.get("/x", {**headers, "Accept-Language": "zh"}), 204)
        ((path, heard),) = Told.heard
        self.assertEqual(path, "/x")
        self.assertEqual(heard["Accept-Language"], "zh")
        # Without the port Django refuses every form of a site on any port but 80.
        self.assertEqual(heard["Host"], f"127.0.0.1:{self.port}")
        self.assertEqual(heard["X-Forwarded-For"], "127.0.0.1")
        self.assertEqual(heard["X-Forwarded-Proto"], "http")
        self.assertNotIn("forged", heard.values())

    def test_what_is_too_long_does_not_reach_the_site(self) -> None:
        self.assertEqual(self.get("/x", {"Content-Length": str(9 * 2**20)}), 413)
        self.assertEqual(self.get("/" + "x" * 20_000, {}), 414)
        self.assertEqual(Told.heard, [])

    def test_one_address_asks_so_often_and_no_more(self) -> None:
        # More than the burst and what the rate gives back in half a minute.
        answers = {self.get("/x", {}) for _ in range(800)}
        said = (self.folder / "nginx.log").read_text().splitlines()
        other = [line for line in said if "limiting requests" not in line]
        self.assertEqual(answers, {204, 429}, other)
