"""A bisection whose worker is killed in each of its steps, and the next worker."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from django.test import SimpleTestCase, tag

from tests.runner.builds.test_builds import STAND_IN
from tests.runner.builds.test_install import stand_in_wheel
from tests.support import runs
from tests.support.package_index import PackageIndexes
from tests.support.sites import PATIENCE_S, Site, wait_for

# Where somebody stands says a file of this name; it goes on once another is there.
WAITS = """
import pathlib, time
pathlib.Path({began!r}).touch()
while not pathlib.Path({go!r}).exists():
    time.sleep(0.02)
"""
TURNS_BAD = """
import torch
if torch.__version__.startswith("9.3"):
{waits}
return {{"nonfinite": int(torch.__version__ >= "9.3"), "grad": 1.0}}
"""
ASK = """
from runner.bisecting import queue
repro = runs.make_repro(text)
answer = queue.submit(repro, "9.1.0", "9.5.0", "user:1", install=True).pk.hex
"""
SAID = """
from runner.bisecting import sentences
from runner.models import Bisection
answer = sentences.sentence(Bisection.objects.get())["en"]
"""


@tag("any_database", "long")
class KilledTest(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.site = Site(self.folder / "var")
        self.addCleanup(self.site.close)
        self.site.migrate()
        simple = self.folder / "index" / "simple"
        stand_in_wheel(simple / "numpy", "2.4.6", "x = 1", name="numpy")
        for minor in range(2, 6):
            version = f"9.{minor}.0+cpu"
            code = STAND_IN.format(version=version)
            # The other end is installed first: its import says so, and waits.
            waits = self.waits("import") if minor == 5 else ""
            stand_in_wheel(simple / "torch", version, waits + code)
        self.index = self.enterContext(PackageIndexes(self.folder / "index"))
        self.site.environ |= self.index.alone("simple") | {
            "PIP_CACHE_DIR": str(self.folder / "cache"),
            "UV_CACHE_DIR": str(self.folder / "uv"),
            "BUILDS_DIR": str(self.folder / "builds"),
            "INSTALL_RELEASES": "1",
            "LEASE_SECONDS": "3",
        }
        python = runs.stand_in_torch(self.folder / "old", "9.1.0+cpu")
        self.site.install(python, "9.1.0-cpu", "9.1.0+cpu")

    def waits(self, name: str) -> str:
        began, go = (str(self.folder / f"{name} {word}") for word in ("began", "go"))
        return WAITS.format(began=began, go=go)

    def has_begun(self, name: str) -> None:
        wait_for((self.folder / f"{name} began").exists, name)

    def go(self, name: str) -> None:
        (self.folder / f"{name} go").touch()

    def kill(self, worker: subprocess.Popen[str]) -> None:
        worker.send_signal(signal.SIGKILL)
        self.assertEqual(worker.wait(PATIENCE_S), -signal.SIGKILL)

    def rows(self, query: str) -> list[Any]:
        return [row[0] for row in self.site.sql(query)]

    def test_nothing_is_lost_or_asked_twice(self) -> None:
        waits = "\n".join(f"    {line}" for line in self.waits("run").splitlines())
        self.site.python(ASK, text=runs.source(trigger=TURNS_BAD.format(waits=waits)))
        installing = self.site.start()
        self.has_begun("import")
        self.kill(installing)
        # One end has its answer, and the other is not here yet.
        ready = "SELECT build_id FROM runner_installation WHERE state = 'ready'"
        self.assertEqual(self.rows(ready), ["9.1.0-cpu"])
        asked = "SELECT build_id FROM runner_run ORDER BY created_at"
        self.assertEqual(self.rows(asked), ["9.1.0-cpu"])
        self.go("import")

        running = self.site.start()
        self.has_begun("run")
        self.kill(running)
        self.assertEqual(self.rows(asked)[-1], "9.3.0-cpu")
        self.go("run")

        self.site.start()
        state = "SELECT state FROM runner_bisection"
        wait_for(lambda: self.rows(state) == ["finished"], "its end")
        self.assertEqual(self.site.python(SAID), "Last good 9.2.0, first bad 9.3.0.")
        builds = ["9.1.0-cpu", "9.5.0-cpu", "9.3.0-cpu", "9.2.0-cpu"]
        self.assertEqual(self.rows(asked), builds)
        kept = "SELECT build_id FROM runner_evidence"
        self.assertEqual(sorted(self.rows(kept)), sorted(builds))
        self.assertEqual(sorted(self.rows(ready)), sorted(builds))
