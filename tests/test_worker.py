"""The real worker: a Celery process over kbfs and SQLite, started, killed, stopped."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import SimpleTestCase, TestCase

from runner.models import Installation
from runner.worker import devices_of, queues_of, ready_installations
from tests import runs

PATIENCE_S = 60
DEPLOYMENT = ("DATABASE_URL", "CELERY_BROKER_URL", "DOESITNAN_TEST_PYTHON")
SETUP = """
import json, sys
import django
django.setup()
from pathlib import Path
from runner import ledger
from runner.models import Run
from tests import runs
"""
# Executes one JSON string of code per line and prints what it assigned to `answer`.
SERVE = """
for line in sys.stdin:
    names = dict(globals())
    exec(json.loads(line), names)
    print(json.dumps(names["answer"]), flush=True)
"""
# Hangs in the first attempt, goes through in the next.
HANGS_ONCE = """
import os, signal
try:
    os.close(os.open({marker!r}, os.O_CREAT | os.O_EXCL))
except FileExistsError:
    return {{"nonfinite": 1, "grad": 1.0}}
with open({marker!r}, "w") as file:
    file.write(str(os.getpid()))
signal.pause()
"""


class Site:
    """A data folder with its own database, broker and workers."""

    def __init__(self, folder: Path, database: Path | None = None) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700)
        if database:
            # A plain copy would leave the write-ahead log behind.
            with closing(sqlite3.connect(database)) as empty:
                empty.execute("VACUUM INTO ?", [str(folder / "db.sqlite3")])
        self.environ = {
            **{k: v for k, v in os.environ.items() if k not in DEPLOYMENT},
            "DATA_DIR": str(folder),
            "SECRET_KEY": "test",
            "TMPDIR": str(folder),  # of killed workers, too
            "DJANGO_SETTINGS_MODULE": "config.settings",
        }
        self.workers: list[subprocess.Popen[str]] = []
        self.shell: subprocess.Popen[str] | None = None

    def migrate(self) -> Path:
        command = [sys.executable, "manage.py", "migrate", "-v0", "--skip-checks"]
        subprocess.run(command, cwd=settings.BASE_DIR, env=self.environ, check=True)
        return self.folder / "db.sqlite3"

    def process(self, *arguments: str) -> subprocess.Popen[str]:
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, *arguments],
                cwd=settings.BASE_DIR,
                env=self.environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def python(self, code: str, **names: object) -> Any:
        """Run code with `names` in a process of the site; returns its `answer`."""
        if self.shell is None:
            self.shell = self.process("-c", SETUP + SERVE)
        assert self.shell.stdin and self.shell.stdout
        given = "".join(f"{name} = {value!r}\n" for name, value in names.items())
        self.shell.stdin.write(json.dumps(given + code) + "\n")
        self.shell.stdin.flush()
        return json.loads(self.shell.stdout.readline())

    def submit(self, text: str, slug: str = runs.SLUG, name: str = "repro") -> str:
        """Submit a run as the web does; returns its id."""
        found = self.python(
            "run = ledger.submit(runs.make_repro(text, name), runs.make_build(slug),"
            " 'cpu', 1).run\nanswer = run.pk.hex",
            text=text,
            slug=slug,
            name=name,
        )
        return str(found)

    def install(self, interpreter: Path, slug: str = runs.SLUG, raw: str = "") -> None:
        self.python(
            "runs.make_build(slug, raw); runs.install(interpreter, slug); answer = 1",
            interpreter=str(interpreter),
            slug=slug,
            raw=raw or runs.STAND_IN,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        worker = self.process("manage.py", "worker", *arguments)
        self.workers.append(worker)
        assert worker.stdout
        self.said = worker.stdout.readline()
        return worker

    def sql(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.folder / "db.sqlite3", timeout=20) as database:
            return database.execute(query, values).fetchall()

    def run_row(self, pk: str) -> tuple[Any, ...]:
        columns = "state, verdict, reason, attempt"
        return self.sql(f"SELECT {columns} FROM runner_run WHERE id = ?", pk)[0]

    def close(self) -> None:
        for process in [*self.workers, *filter(None, [self.shell])]:
            process.kill()
            process.communicate()


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Ask until it holds; a test that waits for ever fails instead."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"still waiting: {what}")
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


class QueuesTest(TestCase):
    def test_a_cuda_queue_only_where_the_build_saw_a_gpu(self) -> None:
        gpu = {"class": "cuda", "name": "H200"}
        runs.install("/a", "9.9.0-cpu", devices=[])
        runs.install("/b", "9.9.0-cu130", devices=[gpu])
        runs.install("/c", "9.9.1-cu130", devices=[gpu])
        broken = runs.install("/d", "9.9.2-cpu")
        broken.state = Installation.State.BROKEN
        broken.save()
        rows = ready_installations()
        self.assertEqual(
            queues_of(rows),
            [
                "9.9.0-cpu.cpu",
                "9.9.0-cu130.cpu",
                "9.9.0-cu130.cuda",
                "9.9.1-cu130.cpu",
                "9.9.1-cu130.cuda",
            ],
        )
        self.assertEqual(devices_of(rows), [gpu])


class WorkerTest(SimpleTestCase):
    database: Path

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.database = Site(Path(folder.name) / "empty").migrate()

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(
            prefix="a site ", ignore_cleanup_errors=True
        )
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.site = Site(self.folder / "var", self.database)
        self.addCleanup(self.site.close)
        self.python = runs.stand_in_torch(self.folder / "torch")

    def wait_for_state(self, pk: str, state: str) -> tuple[Any, ...]:
        wait_for(lambda: self.site.run_row(pk)[0] == state, f"run {state}")
        return self.site.run_row(pk)

    def hanging(self) -> tuple[str, Path]:
        marker = self.folder / "hangs"
        return runs.source(trigger=HANGS_ONCE.format(marker=str(marker))), marker

    def start_hanging(self) -> tuple[str, subprocess.Popen[str], int]:
        """A run whose trigger hangs: its id, its worker, the pid of the check."""
        self.site.install(self.python)
        worker = self.site.start()
        text, marker = self.hanging()
        pk = self.site.submit(text)
        wait_for(lambda: marker.exists() and marker.read_text(), "trigger started")
        return pk, worker, int(marker.read_text())

    def test_queued_to_finished_also_on_a_build_added_later(self) -> None:
        self.site.install(self.python)
        worker = self.site.start("-c", "2")
        self.assertIn(f"serves {runs.SLUG}.cpu", self.site.said)
        first = self.site.submit(runs.source())
        self.assertEqual(
            self.wait_for_state(first, "finished"), ("finished", "bug_present", None, 1)
        )
        (name, queues, slots) = self.site.sql(
            "SELECT name, queues, slots FROM runner_worker"
        )[0]
        self.assertEqual((json.loads(queues), slots), ([f"{runs.SLUG}.cpu"], 2))
        self.assertTrue(self.site.sql("SELECT 1 FROM kb_finding"))

        later = runs.stand_in_torch(self.folder / "later", "9.10.0+cpu")
        self.site.install(later, "9.10.0-cpu", "9.10.0+cpu")
        second = self.site.submit(runs.source(), "9.10.0-cpu")
        self.assertEqual(self.wait_for_state(second, "finished")[1], "bug_present")

        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(PATIENCE_S), 0)
        rows = self.site.sql("SELECT name FROM runner_worker")
        self.assertNotIn((name,), rows)

    def test_runs_that_were_queued_before_the_worker_came_are_taken(self) -> None:
        self.site.install(self.python)
        texts = [runs.source(trigger=f"return {{'nonfinite': {n}}}") for n in range(3)]
        runs_ = [self.site.submit(t, name=f"repro_{n}") for n, t in enumerate(texts)]
        for path in (self.site.folder / "broker" / "queues").rglob("*.msg"):
            path.unlink()  # every wake-up is lost
        self.site.start("-c", "2")
        ended = [self.wait_for_state(pk, "finished")[1] for pk in runs_]
        self.assertEqual(ended, ["bug_absent", "bug_present", "bug_present"])

    def test_a_killed_worker_leaves_no_run_and_no_process_behind(self) -> None:
        pk, worker, check = self.start_hanging()
        worker.kill()
        worker.wait()
        wait_for(lambda: not is_alive(check), "check gone")
        self.assertEqual(self.site.run_row(pk)[0], "running")
        # Time passes: the lease of the dead worker ends.
        past = "2000-01-01 00:00:00"
        with sqlite3.connect(self.site.folder / "db.sqlite3") as database:
            database.execute("UPDATE runner_run SET lease_until = ?", (past,))
        self.site.start()
        self.assertEqual(
            self.wait_for_state(pk, "finished"), ("finished", "bug_present", None, 2)
        )
        numbers = [row[0] for row in self.site.sql("SELECT seq FROM runner_logchunk")]
        self.assertEqual(len(numbers), len(set(numbers)))

    def test_cancelling_a_running_run_kills_its_check(self) -> None:
        pk, worker, check = self.start_hanging()
        self.site.python(
            "answer = ledger.cancel(Run.objects.get(pk=pk))",
            pk=pk,
        )
        self.assertEqual(self.wait_for_state(pk, "cancelled")[1], None)
        self.assertFalse(is_alive(check))
        self.assertIsNone(worker.poll())

    def test_a_worker_told_to_stop_gives_its_run_back(self) -> None:
        pk, worker, check = self.start_hanging()
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(PATIENCE_S), 0)
        self.assertFalse(is_alive(check))
        self.assertEqual(self.site.run_row(pk)[:2], ("queued", None))
        self.site.start()
        self.assertEqual(self.wait_for_state(pk, "finished")[1], "bug_present")

    def test_a_vanished_build_is_an_error_and_the_worker_lives_on(self) -> None:
        self.site.install(self.folder / "gone" / "python")
        self.site.install(
            runs.stand_in_torch(self.folder / "here", "9.10.0+cpu"),
            "9.10.0-cpu",
            "9.10.0+cpu",
        )
        worker = self.site.start()
        lost = self.site.submit(runs.source())
        self.assertEqual(
            self.wait_for_state(lost, "finished")[:3],
            ("finished", "error", "build_missing"),
        )
        good = self.site.submit(runs.source(), "9.10.0-cpu")
        self.assertEqual(self.wait_for_state(good, "finished")[1], "bug_present")
        self.assertIsNone(worker.poll())

    def test_processes_never_claim_the_same_run(self) -> None:
        count = 30
        self.site.python(
            "for n in range(int(count)):\n"
            "    runs.make_run(repro_digest=f'sha256:{n}')\n"
            "answer = 1",
            count=str(count),
        )
        code = (
            SETUP + "queue = [f'{runs.SLUG}.cpu']\n"
            "sys.stdin.readline()\n"
            "while run := ledger.claim(queue, 'w'):\n"
            "    print(run.pk.hex)\n"
        )
        claimers = [self.site.process("-c", code) for _ in range(3)]
        taken = [pk for p in claimers for pk in p.communicate("go\n")[0].split()]
        self.assertEqual((len(taken), len(set(taken))), (count, count))
        self.assertEqual({p.returncode for p in claimers}, {0})
