"""A real `manage.py watch --once`, killed in each of its phases, and the next one."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

from django.test import SimpleTestCase, tag

from tests.runner.builds.test_builds import STAND_IN
from tests.runner.builds.test_install import stand_in_wheel
from tests.support.package_index import Handler, PackageIndexes
from tests.support.sites import PATIENCE_S, Site, wait_for

# Its import says that it has begun, and waits for the word.
SLOW_TORCH = """
import pathlib, time
pathlib.Path({began!r}).touch()
while not pathlib.Path({go!r}).exists():
    time.sleep(0.02)
"""
# A write that never ends: whoever notes that a release was run is held there.
HELD = (
    "CREATE VIEW forever AS WITH RECURSIVE c(x) AS "
    "(SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c",
    "CREATE TRIGGER held BEFORE UPDATE ON runner_watchedrelease "
    "WHEN NEW.state = 'ran' BEGIN SELECT count(*) FROM forever; END",
)
# Bytes of a wheel that arrive before the download is cut.
HALF = 200
LET_GO = ("DROP TRIGGER held", "DROP VIEW forever")


class HeldIndexes(PackageIndexes):
    """Says nothing of torch until it may, and sends half a wheel until it may more."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.may_answer = threading.Event()
        self.was_asked = threading.Event()
        self.may_send = threading.Event()
        self.is_sending = threading.Event()
        indexes, options = self, self.server.RequestHandlerClass.keywords

        class Held(Handler):
            def do_GET(self) -> None:
                indexes.was_asked.set()
                indexes.may_answer.wait(PATIENCE_S)
                super().do_GET()

            def copyfile(self, source: Any, outputfile: Any) -> None:
                if "/torch-" in self.path and not indexes.may_send.is_set():
                    outputfile.write(source.read(HALF))
                    indexes.is_sending.set()
                    indexes.may_send.wait(PATIENCE_S)
                super().copyfile(source, outputfile)

        self.server.RequestHandlerClass = lambda *rest: Held(*rest, **options)


@tag("any_database", "long")
class KilledTest(SimpleTestCase):
    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.began, self.go = folder / "began", folder / "go"
        self.site = Site(folder / "var")
        self.addCleanup(self.site.close)
        self.site.migrate()
        index = folder / "index" / "simple"
        stand_in_wheel(index / "numpy", "2.4.6", "x = 1", name="numpy")
        waits = SLOW_TORCH.format(began=str(self.began), go=str(self.go))
        code = waits + STAND_IN.format(version="9.7.0+cpu")
        stand_in_wheel(index / "torch", "9.7.0+cpu", code)
        self.index = self.enterContext(HeldIndexes(folder / "index"))
        self.site.environ |= self.index.alone("simple") | {
            "PIP_CACHE_DIR": str(folder / "cache"),
            "UV_CACHE_DIR": str(folder / "uv"),
            "BUILDS_DIR": str(folder / "builds"),
        }
        self.site.python("runs.make_repro(); answer = 1")
        self.site.install(Path("/usr/bin/python3"), "2.6.0-cpu", "2.6.0+cpu")

    def watch(self) -> subprocess.Popen[str]:
        process = self.site.process("manage.py", "watch", "--once")
        self.site.workers.append(process)  # ended with the site, whatever happens
        return process

    def read_until(self, process: subprocess.Popen[str], said: str) -> None:
        assert process.stdout
        for line in process.stdout:
            if said in line:
                return
        self.fail(f"It ended without saying: {said}")

    def kill(self, process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGKILL)
        self.assertEqual(process.wait(PATIENCE_S), -signal.SIGKILL)

    def states(self) -> list[Any]:
        return [
            row[0] for row in self.site.sql("SELECT state FROM runner_watchedrelease")
        ]

    def count(self, table: str, where: str = "1") -> int:
        rows = self.site.sql(f"SELECT count(*) FROM {table} WHERE {where}")
        return int(rows[0][0])

    def test_nothing_is_lost_or_done_twice(self) -> None:
        ready = "build_id = '9.7.0-cpu' AND state = 'ready'"
        finding = self.watch()
        self.assertTrue(self.index.was_asked.wait(PATIENCE_S))
        self.kill(finding)
        self.assertEqual(self.states(), [])
        self.index.may_answer.set()

        downloading = self.watch()
        self.assertTrue(self.index.is_sending.wait(PATIENCE_S))
        self.kill(downloading)
        self.assertEqual(self.states(), ["found"])
        self.assertEqual(self.count("runner_installation", ready), 0)
        self.index.may_send.set()

        installing = self.watch()
        wait_for(self.began.exists, "the first import of the new torch")
        self.kill(installing)
        self.assertEqual(self.states(), ["found"])
        self.assertEqual(self.count("runner_installation", ready), 0)
        self.go.touch()

        running = self.watch()
        self.read_until(running, "No worker is online")
        self.kill(running)
        self.assertEqual(self.states(), ["installed"])
        self.assertEqual(self.count("runner_run"), 1)
        self.assertEqual(self.count("runner_installation", ready), 1)

        self.site.start()
        for statement in HELD:
            self.site.sql(statement)
        recording = self.watch()
        self.read_until(recording, "Done: ")
        self.kill(recording)
        self.assertEqual(self.states(), ["installed"])
        for statement in LET_GO:
            self.site.sql(statement)

        last = self.watch()
        said, _ = last.communicate(timeout=PATIENCE_S)
        self.assertEqual(last.returncode, 0, said)
        self.assertEqual(self.states(), ["ran"])
        self.assertEqual(self.count("runner_run"), 1)
        self.assertEqual(self.count("runner_evidence"), 1)
        self.assertEqual(self.count("runner_installation", ready), 1)
        self.assertEqual(self.count("runner_run", "verdict = 'bug_present'"), 1)
