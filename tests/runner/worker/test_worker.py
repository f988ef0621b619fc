"""The real worker: a Celery process over kbfs and SQLite, started, killed, stopped."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from django.test import SimpleTestCase, TestCase, tag

from runner.builds import registry
from runner.models import Installation
from runner.runs import host_gpus
from runner.worker.heartbeat import queues_of
from tests.support import runs
from tests.support.sites import PATIENCE_S, SETUP, Site, is_alive, wait_for

# Hangs in the first attempt, goes through in the next.
HANGS_ONCE = """
import os, time
try:
    os.close(os.open({marker!r}, os.O_CREAT | os.O_EXCL))
except FileExistsError:
    return {{"nonfinite": 1, "grad": 1.0}}
with open({marker!r}, "w") as file:
    file.write(str(os.getpid()))
while not os.path.exists({go!r}):
    time.sleep(0.05)
return {{"nonfinite": 1, "grad": 1.0}}
"""


class QueuesTest(TestCase):
    def test_a_cuda_queue_only_where_the_build_saw_a_gpu(self) -> None:
        gpu = {"class": "cuda", "name": "H200"}
        runs.install("/a", "9.9.0-cpu", devices=[])
        runs.install("/b", "9.9.0-cu130", devices=[gpu])
        runs.install("/c", "9.9.1-cu130", devices=[gpu])
        broken = runs.install("/d", "9.9.2-cpu")
        broken.state = Installation.State.BROKEN
        broken.save()
        rows = registry.ready_here()
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
        # No NVML here: known by its number.
        self.assertEqual(host_gpus.offered(rows), [{**gpu, "uuid": "cuda-0"}])


@tag("any_database", "long")
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
        return runs.source(
            trigger=HANGS_ONCE.format(marker=str(marker), go=str(self.folder / "go"))
        ), marker

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
        (queues, slots) = self.site.sql("SELECT queues, slots FROM runner_worker")[0]
        self.assertEqual((json.loads(queues), slots), ([f"{runs.SLUG}.cpu"], 2))
        self.assertTrue(self.site.sql("SELECT 1 FROM kb_finding"))

        later = runs.stand_in_torch(self.folder / "later", "9.10.0+cpu")
        self.site.install(later, "9.10.0-cpu", "9.10.0+cpu")
        second = self.site.submit(runs.source(), "9.10.0-cpu")
        self.assertEqual(self.wait_for_state(second, "finished")[1], "bug_present")

        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(PATIENCE_S), 0)
        self.assertEqual(self.site.sql("SELECT slots FROM runner_worker"), [(0,)])

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
            "answer = jobs.cancel(Run.objects.get(pk=pk))",
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

    def test_a_drained_worker_finishes_its_run_and_ends(self) -> None:
        pk, worker, _check = self.start_hanging()
        drain = self.site.process("manage.py", "worker", "--drain")
        assert drain.stdout
        self.assertIn("executes 1 more", drain.stdout.readline())
        waiting = self.site.submit(runs.source() + "# waits\n", name="waits")
        (self.folder / "go").touch()
        self.assertEqual(drain.wait(PATIENCE_S), 0)
        self.assertEqual(worker.wait(PATIENCE_S), 0)
        self.assertEqual(self.site.run_row(pk), ("finished", "bug_present", None, 1))
        self.assertEqual(self.site.run_row(waiting)[0], "queued")
        left = self.site.sql("SELECT slots, draining FROM runner_worker")
        self.assertEqual(left, [(0, 0)])

    def test_a_paused_worker_starts_nothing_until_it_is_resumed(self) -> None:
        self.site.install(self.python)
        worker = self.site.start("--name", "mine")
        query = "SELECT count(*) FROM runner_worker"
        wait_for(lambda: self.site.sql(query) == [(1,)], "the worker's row")
        code = "Worker.objects.update(paused=bool(on)); answer = 1"
        self.site.python(f"from runner.models import Worker\n{code}", on=1)
        pk = self.site.python(
            "answer = runs.make_run(runs.make_repro(text)).pk.hex", text=runs.source()
        )
        other = self.site.start("--name", "other")
        wait_for(lambda: self.site.run_row(pk)[0] == "finished", "the other's run")
        (name,) = self.site.sql("SELECT worker FROM runner_run")[0]
        self.assertTrue(name.startswith("other@"))
        for process in (worker, other):
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
        # A pause outlives the worker; another of that name is paused, too.
        rows = self.site.sql("SELECT name FROM runner_worker WHERE paused")
        self.assertEqual([name.partition("@")[0] for (name,) in rows], ["mine"])

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
