"""A real worker is killed while a capture runs: the capture is taken again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from django.test import SimpleTestCase, tag

from portable.harness.process import read_bytes
from runner.sandbox.jail import kernel
from tests.support import captures
from tests.support.builds import torch_python
from tests.support.sites import Site, is_alive, wait_for

ADDED = (
    "from runner.builds import registry\nregistry.add_python(Path(python))\nanswer=0"
)
KEPT = (
    "from runner.captures import keeping\nfrom runner.models import Build\n"
    "keeping.keep(text, list(Build.objects.all()), 'user:1')\nanswer = 0"
)
# How the child of a check is started.
CHILD = b"\0--child\0"


def is_running_it(pid: int) -> bool:
    found = (f"/proc/{one}/cmdline" for one in kernel.descendants(pid))
    return any(CHILD in read_bytes(path) for path in found)


@tag("any_database", "long")
class KilledTest(SimpleTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.site = Site(Path(folder.name) / "var")
        self.addCleanup(self.site.close)
        for name in ("SANDBOX_WITHOUT", "SANDBOX_MIN_TIER"):
            del self.site.environ[name]
        self.site.migrate()
        self.site.python(ADDED, python=torch_python())

    def row(self) -> tuple[Any, ...]:
        query = "SELECT state, outcome, reason, attempt FROM runner_capturerun"
        return self.site.sql(query)[0]

    def test_it_is_taken_again_and_nothing_of_the_first_is_left(self) -> None:
        worker = self.site.start()
        self.site.python(KEPT, text=captures.text())
        wait_for(lambda: is_running_it(worker.pid), "the call runs")
        children = kernel.descendants(worker.pid)
        worker.kill()
        worker.wait()
        wait_for(lambda: not any(map(is_alive, children)), "its processes gone")
        self.assertEqual(self.row(), ("running", "", "", 1))
        # Time passes: the lease of the dead worker ends.
        self.site.sql("UPDATE runner_capturerun SET lease_until = '2000-01-01'")
        self.site.start()
        wait_for(lambda: self.row()[0] == "finished", "another worker's end")
        self.assertEqual(self.row(), ("finished", "nan", "", 2))
