"""Database and disk taken away from a site that runs: 503 that says so, never 500."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import psycopg
from django.db import Error, transaction
from django.test import SimpleTestCase, TestCase, tag

from kb.problems import is_outage
from runner.models import Run
from runner.runs import submission
from tests import ROOT
from tests.support import runs, servers
from tests.support.loopback import free_port
from tests.support.sites import Site, wait_for

PATIENCE_S = 60
RUN = json.dumps({"record": "NAN-9001", "build": runs.SLUG})
JSON = {"Content-Type": "application/json"}
# As the site's own, but that what waits for a lock gives up soon, and on a file that
# may not grow.
HURRIED = """\
from config.settings import *
DATABASES["default"]["OPTIONS"]["timeout"] = 0.2
"""
FULL = """\
from config.settings import *
DATABASES["default"]["OPTIONS"]["init_command"] += "PRAGMA max_page_count=1;"
"""
# In a file system of its own, that an ordinary user may mount in a namespace.
OWN_DISK = """\
mount -t tmpfs -o size=24m tmpfs "$DATA_DIR"
cp -r "$1/." "$DATA_DIR"
shift
exec "$@"
"""
BLOCKED = """\
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = %s AND wait_event_type = 'Lock'
"""


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def problem(self) -> tuple[int, str, str, bool]:
        """Status, media type, code, and whether it says when to come back."""
        code = json.loads(self.body)["code"]
        kind = self.headers["Content-Type"]
        return self.status, kind, code, "Retry-After" in self.headers


BUSY = (503, "application/problem+json", "busy", True)


class OutageCase(SimpleTestCase):
    database: Any = None

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.site = Site(self.folder / "site")
        self.addCleanup(lambda: self.site.close())

    def prepare(self, settings: str = "", **environ: str) -> None:
        """A site with a record that can be run; `settings` for its web server."""
        self.site.environ.update(environ)
        self.site.migrate()
        self.site.install(Path("/bin/true"))
        self.site.python("runs.make_repro(); answer = 1")
        if settings:
            (self.folder / "other_settings.py").write_text(settings)
            self.site.environ |= {
                "PYTHONPATH": str(self.folder),
                "DJANGO_SETTINGS_MODULE": "other_settings",
            }
        self.site.copy_static()

    @contextmanager
    def serving(self, *inside: str) -> Iterator[int]:
        """The web server; gives its process."""
        self.port = free_port()
        command = [sys.executable, "-m", "gunicorn", "-c", "python:config.gunicorn"]
        bound = ["--workers", "1", "--bind", f"127.0.0.1:{self.port}"]
        with (self.folder / "web.log").open("w") as log:
            web = subprocess.Popen(
                [*inside, *command, *bound], cwd=ROOT, env=self.site.environ, stderr=log
            )
        try:
            wait_for(lambda: web.poll() is not None or self.listens(), "web server")
            yield web.pid
        finally:
            web.terminate()
            web.wait(PATIENCE_S)

    def listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True

    def ask(
        self, method: str, path: str, body: str = "", headers: Any = None
    ) -> Answer:
        web = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        with closing(web):
            web.request(method, path, body, headers or {})
            answer = web.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())

    def click(self) -> Answer:
        return self.ask("POST", "/api/v1/runs", RUN, JSON)

    def cancel_of(self, taken: Answer) -> str:
        self.assertEqual(taken.status, 202, taken.body)
        address: str = json.loads(taken.body)["urls"]["cancel"]
        return "/api/" + address.partition("/api/")[2]

    def assert_page(self, answer: Answer) -> None:
        self.assertEqual(answer.status, 503, answer.body[:300])
        self.assertIn("text/html", answer.headers["Content-Type"])
        self.assertIn("Retry-After", answer.headers)
        page = answer.body.decode()
        is_chinese = answer.headers["Content-Language"] == "zh-Hans"
        said = "请几秒后重试" if is_chinese else "cannot read or write its data"
        self.assertIn(said, page)

    def press(self) -> Answer:
        """The button of the record's page, by a browser without scripts."""
        data = f"repro=repro&build={runs.SLUG}&csrfmiddlewaretoken={'t' * 32}"
        form = "application/x-www-form-urlencoded"
        headers = {"Content-Type": form, "Cookie": f"csrftoken={'t' * 32}"}
        return self.ask("POST", "/en/NAN-9001/runs/", data, headers)


class BrokenTest(TestCase):
    """A fault of the code itself, which waiting does not cure."""

    def test_the_api_says_so_without_html(self) -> None:
        self.client.raise_request_exception = False
        runs.make_repro()
        runs.make_build()
        with mock.patch.object(submission, "submit", side_effect=RuntimeError):
            answer = self.client.post("/api/v1/runs", RUN, "application/json")
        self.assertEqual(answer.status_code, 500)
        self.assertEqual(answer["Content-Type"], "application/problem+json")
        self.assertEqual(answer.json()["code"], "internal")
        self.assertEqual(answer.json()["request_id"], answer["X-Request-Id"])
        self.assertNotIn("Retry-After", answer)

    def test_a_table_that_is_missing_is_no_outage(self) -> None:
        with self.assertRaises(Error) as caught, transaction.atomic():
            Run.objects.raw("SELECT * FROM nothing")[0]
        self.assertFalse(is_outage(caught.exception))


class LockedTest(OutageCase):
    def test_another_process_holds_the_lock(self) -> None:
        self.prepare(HURRIED)
        with self.serving():
            self.assertEqual(self.ask("GET", "/readyz").body, b"ok\n")
            with closing(sqlite3.connect(self.site.database)) as other:
                other.execute("BEGIN IMMEDIATE")
                self.assertEqual(self.click().problem, BUSY)
                self.assert_page(self.press())
                self.assertEqual(self.ask("GET", "/en/").status, 200)
                unready = "database: database is locked"
                wait_for(
                    lambda: self.ask("GET", "/readyz").status == 503, "not to be ready"
                )
                self.assertIn(unready, self.ask("GET", "/readyz").body.decode())
                page = self.ask("GET", "/zh/health/").body.decode()
                self.assertIn("数据库无法写入：database is locked", page)
            self.assertEqual(self.click().status, 202)
            wait_for(lambda: self.ask("GET", "/readyz").status == 200, "readiness")


class FullTest(OutageCase):
    def test_a_file_that_cannot_grow(self) -> None:
        self.prepare(FULL)
        with self.serving():
            for _ in range(100):
                taken = self.click()
                if taken.status != 202:
                    break
                self.ask("POST", self.cancel_of(taken))
            self.assertEqual(taken.problem, BUSY)
            self.assert_page(self.press())
            self.assertEqual(self.ask("GET", "/en/NAN-9001").status // 100, 3)
        check = "PRAGMA integrity_check"
        self.assertEqual(self.site.sql(check), [("ok",)])

    def test_a_disk_that_is_full(self) -> None:
        can = subprocess.run(["unshare", "-Urm", "true"], capture_output=True)
        if can.returncode:
            self.skipTest("no namespace to mount a disk in")
        self.prepare()
        self.site.close()
        # Else SQLite would write over what its log held before, for a while.
        self.site.sql("PRAGMA wal_checkpoint(TRUNCATE)")
        kept = self.folder / "kept"
        shutil.move(self.site.folder, kept)
        self.site.folder.mkdir()
        disk = ("unshare", "-Urm", "sh", "-euc", OWN_DISK, "sh", str(kept))
        with self.serving(*disk) as pid:
            cancel = self.cancel_of(self.click())
            self.assertEqual(self.ask("GET", "/readyz").body, b"ok\n")
            filler = Path(f"/proc/{pid}/root{self.site.folder}/filler")
            with self.assertRaises(OSError), filler.open("wb", 0) as file:
                while True:
                    file.write(b"x" * 4096)
            wait_for(lambda: self.ask("GET", "/readyz").status == 503, "the full disk")
            self.assertIn(
                "DATA_DIR: 0 MiB left", self.ask("GET", "/readyz").body.decode()
            )
            alarms = self.ask("GET", "/metrics").body.decode()
            self.assertNotIn("doesitnan_alarms 0", alarms)
            self.assertEqual(self.ask("POST", cancel).problem, BUSY)
            self.assertEqual(self.ask("GET", "/en/").status, 200)
            filler.unlink()
            self.assertEqual(self.ask("POST", cancel).status, 202)


@tag("servers")
class PostgresTest(OutageCase):
    PAGES: ClassVar = [
        "/en/",
        "/zh/NAN-9001/sample-9001/",
        "/en/builds/",
        "/en/health/",
    ]

    def test_connections_cut_in_the_middle_of_a_request(self) -> None:
        url = servers.postgres_database(self)
        self.prepare(DATABASE_URL=url, PAGE_CACHE_SECONDS="0")
        with self.serving(), psycopg.connect(url) as holder:
            run = json.loads(self.click().body)["id"]
            tables = "kb_record, runner_run, runner_build, runner_worker"
            holder.execute(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE")
            cut = f"/api/v1/runs/{run}/cancel"
            for method, path in [
                *(("POST", "/api/v1/runs"), ("GET", "/api/v1/runs"), ("POST", cut)),
                *(("GET", f"/api/v1/runs/{run}"), ("GET", "/api/v1/records")),
                ("GET", "/api/v1/builds"),
            ]:
                with self.subTest(f"{method} {path}"):
                    body = RUN if path.endswith("runs") and method == "POST" else ""
                    answer = self.while_cut(url, method, path, body, JSON)
                    self.assertEqual(answer.problem, BUSY)
            for path in self.PAGES:
                with self.subTest(path):
                    self.assert_page(self.while_cut(url, "GET", path))
            holder.rollback()
            self.assertEqual(self.click().status, 202)

    def while_cut(self, url: str, *request: Any) -> Answer:
        """The answer to a request whose connection is ended as it waits for a lock."""
        answers: list[Answer] = []
        asking = threading.Thread(target=lambda: answers.append(self.ask(*request)))
        asking.start()
        name = url.rpartition("/")[2]
        with psycopg.connect(f"{servers.POSTGRES}/postgres", autocommit=True) as server:
            while asking.is_alive():
                server.execute(BLOCKED, [name])
                asking.join(0.05)
        return answers[0]

    def test_no_server_at_every_operation(self) -> None:
        url = servers.postgres_database(self)
        proxy = servers.Proxy(servers.POSTGRES)
        self.addCleanup(proxy.close)
        direct = servers.POSTGRES.rpartition("@")[2]
        self.prepare(DATABASE_URL=url.replace(direct, f"127.0.0.1:{proxy.port}"))
        with self.serving():
            schema = json.loads(self.ask("GET", "/api/v1/openapi.json").body)
            proxy.set_mode("refuse")
            asked = 0
            for path, operations in schema["paths"].items():
                for method in operations.keys() & {"get", "post"}:
                    with self.subTest(f"{method} {path}"):
                        asked += self.is_told(method.upper(), path)
            self.assertGreater(asked, 15)
            for page in self.PAGES:
                self.assert_page(self.ask("GET", page))
            self.assertEqual(self.ask("GET", "/readyz").status, 503)
            proxy.set_mode("forward")
            self.assertEqual(self.ask("GET", "/readyz").body, b"ok\n")
            self.assertEqual(self.click().status, 202)

    def is_told(self, method: str, path: str) -> bool:
        """True where the operation asked the database; never HTML, never 500."""
        for name, value in {
            **{"record_id": "NAN-9001", "digest": f"sha256:{'0' * 64}"},
            **dict.fromkeys(("run_id", "sweep_id", "capture_id"), "0" * 32),
        }.items():
            path = path.replace(f"{{{name}}}", value)
        answer = self.ask(method, path, RUN if method == "POST" else "", JSON)
        self.assertNotIn("html", answer.headers.get("Content-Type", ""))
        self.assertNotEqual(answer.status, 500)
        if answer.status == 503:
            self.assertEqual(answer.problem, BUSY)
        return answer.status == 503

    def test_a_worker_whose_first_query_is_cut_tries_again(self) -> None:
        url = servers.postgres_database(self)
        self.prepare(DATABASE_URL=url)
        with psycopg.connect(url) as holder:
            holder.execute("LOCK TABLE runner_installation IN ACCESS EXCLUSIVE MODE")
            log = (self.folder / "worker.log").open("w+")
            worker = subprocess.Popen(
                [*self.site.command, "worker", "--concurrency", "1"],
                env=self.site.environ,
                stdout=subprocess.PIPE,
                stderr=log,
            )
            self.addCleanup(worker.communicate)
            self.addCleanup(worker.kill)
            name = url.rpartition("/")[2]
            with psycopg.connect(
                f"{servers.POSTGRES}/postgres", autocommit=True
            ) as server:
                wait_for(
                    lambda: server.execute(BLOCKED, [name]).rowcount, "its first query"
                )
            holder.rollback()
        rows = "SELECT count(*) FROM runner_worker"
        with psycopg.connect(url, autocommit=True) as server:
            wait_for(
                lambda: (
                    worker.poll() is not None or server.execute(rows).fetchone() == (1,)
                ),
                "the worker",
            )
        self.assertIsNone(
            worker.poll(), (self.folder / "worker.log").read_text()[-500:]
        )
