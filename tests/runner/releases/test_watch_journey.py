"""From a release that appears on an index to whoever asked to hear of it."""

from __future__ import annotations

import hashlib
import hmac
import signal
import tempfile
import threading
from pathlib import Path
from typing import Any

from django.test import SimpleTestCase, tag

from kb.telling.outbox import LEASE
from tests.runner.builds.test_install import stand_in_wheel
from tests.support import runs
from tests.support.package_index import PackageIndexes
from tests.support.receiver import Receiver
from tests.support.sites import PATIENCE_S, Site, wait_for

BEGINS_IN_2_15 = """
import torch
return {"nonfinite": int(torch.__version__ >= "2.15"), "grad": 1.0}
"""
READ = """
from django.test import Client
found = Client(SERVER_NAME="localhost").get(path)
answer = [found.status_code, found.content.decode()]
"""


class SlowReceiver(Receiver):
    """Keeps what it is sent, and answers once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()
        handler: Any = self.server.RequestHandlerClass
        receiver = self

        class Slow(handler):  # type: ignore[misc]
            def send_response(self, *arguments: Any) -> None:
                receiver.may_answer.wait(PATIENCE_S)
                super().send_response(*arguments)

        self.server.RequestHandlerClass = Slow


@tag("any_database", "long")
class JourneyTest(SimpleTestCase):
    """With a real worker, real installations and the command itself."""

    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.site = Site(folder / "var")
        self.addCleanup(self.site.close)
        self.site.migrate()
        self.manage("collectstatic", "--noinput", "-v0")
        self.torch = folder / "index" / "simple" / "torch"
        stand_in_wheel(self.torch.parent / "numpy", "2.4.6", "x = 1", name="numpy")
        stand_in_wheel(self.torch, "2.14.1+cpu")
        self.index = self.enterContext(PackageIndexes(folder / "index"))
        self.receiver = self.enterContext(SlowReceiver())
        self.addCleanup(self.receiver.may_answer.set)
        self.site.environ |= self.index.alone("simple") | {
            "PIP_CACHE_DIR": str(folder / "cache"),
            "UV_CACHE_DIR": str(folder / "uv"),
            "BUILDS_DIR": str(folder / "builds"),
            "WEBHOOKS_PRIVATE": "1",
        }
        # The site has evidence up to 2.14.1.
        python = runs.stand_in_torch(folder / "old", "2.14.1+cpu")
        self.site.install(python, "2.14.1-cpu", "2.14.1+cpu")
        text = runs.source(trigger=BEGINS_IN_2_15)
        self.worker = self.site.start()
        first = self.site.submit(text, "2.14.1-cpu")
        wait_for(lambda: self.site.run_row(first)[0] == "finished", "the first run")
        self.assertEqual(self.site.run_row(first)[1], "bug_absent")
        self.secret = self.manage("webhooks", "add", "ours", self.receiver.address)

    def manage(self, *arguments: str) -> str:
        process = self.site.process("manage.py", *arguments)
        self.site.workers.append(process)  # ended with the site, whatever happens
        said, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 0, said)
        return said.strip()

    def read(self, path: str) -> str:
        status, text = self.site.python(READ, path=path)
        self.assertEqual(status, 200, path)
        return str(text)

    def counts(self) -> list[int]:
        tables = ("runner_run", "runner_evidence", "kb_change", "kb_delivery")
        asked = [self.site.sql(f"SELECT count(*) FROM {table}") for table in tables]
        return [int(rows[0][0]) for rows in asked]

    def sent(self) -> list[tuple[str, str]]:
        rows = self.site.sql("SELECT id, state FROM kb_delivery")
        return [(str(pk).replace("-", ""), str(state)) for pk, state in rows]

    def test_a_release_is_found_run_shown_and_told_once(self) -> None:
        self.assertEqual(
            self.manage("watch", "--once"),
            "The index has 1 release of torch; nothing new.",
        )
        stand_in_wheel(self.torch, "2.15.0+cpu")
        said = self.manage("watch", "--once")
        flip = "NAN-9001: first bad in 2.15.0-cpu, good in 2.14.1-cpu."
        self.assertIn("2 releases of torch; new here: 2.15.0.", said)
        self.assertIn(flip, said)
        page = self.read("/en/releases/2.15.0/")
        self.assertIn("NAN-9001", page)
        self.assertIn("2.14.1-cpu", page)
        feed = self.read("/en/releases/2.15.0/feed.atom")
        self.assertIn(f"<title>{flip.rstrip('.')}", feed)
        self.assertIn("first bad", self.read("/en/NAN-9001/feed.atom"))

        # Whoever tells is killed while the receiver has the message, and has not
        # answered yet: the next one sends it under the same id.
        wait_for(lambda: self.receiver.got, "the message")
        self.worker.send_signal(signal.SIGKILL)
        self.assertEqual(self.worker.wait(PATIENCE_S), -signal.SIGKILL)
        ((delivery, state),) = self.sent()
        self.assertEqual(state, "waiting")
        self.receiver.may_answer.set()
        self.site.sql(
            "UPDATE kb_delivery SET next_at = datetime(next_at, ?)",
            f"-{LEASE.total_seconds():.0f} seconds",
        )
        self.site.start()
        wait_for(lambda: self.sent()[0][1] == "sent", "the second try")
        for _path, headers, body in self.receiver.got:
            self.assertEqual(headers["X-DoesItNaN-Delivery"].replace("-", ""), delivery)
            given = headers["X-DoesItNaN-Signature"]
            stamp, signature = (
                part[part.index("=") + 1 :] for part in given.split(",")
            )
            signed = hmac.new(
                self.secret.encode(), stamp.encode() + b"." + body, hashlib.sha256
            )
            self.assertEqual(signature, signed.hexdigest())
        message = self.receiver.messages()[-1]
        self.assertEqual(
            (message["record"], message["kind"], message["build"], message["before"]),
            ("NAN-9001", "first_bad", "2.15.0-cpu", "2.14.1-cpu"),
        )

        before, tries = self.counts(), len(self.receiver.got)
        self.assertEqual((before, tries), ([2, 2, 1, 1], 2))
        self.assertEqual(
            self.manage("watch", "--once"),
            "The index has 2 releases of torch; nothing new.",
        )
        self.assertEqual((self.counts(), len(self.receiver.got)), (before, tries))
