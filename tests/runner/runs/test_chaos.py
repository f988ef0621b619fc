"""No run is lost, doubled or stuck, whatever is killed, stopped or cut."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import SimpleTestCase, tag

from tests.support import runs, servers
from tests.support.sites import Site, wait_for

LEASE_S = 3
QUEUES = ("chores", f"{runs.SLUG}.cpu")
GIVE_UP_S = 400
# In place of a click by HTTP: the same view, in the site's own process.
CLICK = """
import time
from django.test import Client
runs.make_repro(text, name)
begin = time.monotonic()
found = Client(SERVER_NAME="localhost").post(
    "/en/NAN-9001/runs/", {"repro": name, "build": runs.SLUG}
)
assert found.status_code == 302, found.content.decode()
answer = time.monotonic() - begin
"""


class ChaosCase(SimpleTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.site = Site(Path(folder.name) / "var")
        self.site.environ["LEASE_SECONDS"] = str(LEASE_S)
        self.addCleanup(self.site.close)

    def use(self, **environ: str) -> None:
        self.site.environ.update(environ)

    def node(self, name: str, slots: int = 1) -> subprocess.Popen[str]:
        process = self.site.process("-m", "tests.chaos_node", name, str(slots))
        self.site.workers.append(process)
        return process

    def chaos(self, *arguments: str) -> dict[str, Any]:
        """Run tests.chaos on the site; returns its report, which it also prints."""
        self.site.migrate()
        done = subprocess.run(
            [sys.executable, "-m", "tests.chaos", *arguments],
            cwd=settings.BASE_DIR,
            env=self.site.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=GIVE_UP_S,
        )
        self.assertEqual(done.returncode, 0, done.stdout[-3000:])
        line = done.stdout.strip().splitlines()[-1]
        sys.stderr.write(f"{self.id().rpartition('.')[2]}: {line}\n")
        report: dict[str, Any] = json.loads(line)
        return report

    def assert_all_well(self, report: dict[str, Any], count: int) -> None:
        self.assertEqual(report["submitted"], count)
        self.assertEqual(report["states"], {"finished": count})
        self.assertEqual(report["verdicts"], count)
        # A run that lost three workers has a verdict, error: lost, but no evidence.
        lost = report["reasons"].get("lost", 0)
        self.assertEqual(report["with_evidence"], count - lost)
        self.assertEqual((report["doubles"], report["locked_errors"]), (0, 0))


@tag("any_database", "long")
class EmbeddedTest(ChaosCase):
    def stop(self, process: subprocess.Popen[str]) -> None:
        """Not in the middle of writing: then no other could write, either."""
        os.kill(process.pid, signal.SIGSTOP)
        while not self.site.is_writable():
            os.kill(process.pid, signal.SIGCONT)
            os.kill(process.pid, signal.SIGSTOP)

    def test_sixty_runs_and_six_kills(self) -> None:
        report = self.chaos("--runs", "60", "--kills", "6", "--seed", "1")
        self.assert_all_well(report, 60)
        self.assertEqual(report["kills"], {"group": 2, "main": 2, "child": 2})
        self.assertGreaterEqual(report["interrupted"], 2)

    @tag("gauntlet")  # A test of the test: half a minute for what seldom changes.
    def test_without_the_reaper_runs_are_stuck(self) -> None:
        """The negative control: the kills above do interrupt runs."""
        self.use(CHAOS_REAP="0")
        options = ("--runs", "30", "--kills", "4", "--patience", "14")
        report = self.chaos(*options, "--seed", "2")
        self.assertGreater(report["states"].get("running", 0), 0)

    def test_a_worker_that_wakes_after_its_lease_writes_nothing(self) -> None:
        self.site.migrate()
        self.site.install(Path(sys.executable))
        self.use(CHAOS_RUN_S="2")
        first = self.node("first")
        pk = self.site.submit(runs.source())
        wait_for(lambda: self.site.run_row(pk)[0] == "running", "the first attempt")
        self.stop(first)
        self.use(CHAOS_RUN_S="0.2")
        self.node("second")
        wait_for(lambda: self.site.run_row(pk)[0] == "finished", "the second attempt")
        before = self.site.sql("SELECT digest FROM runner_evidence")
        log = self.site.folder / "log"
        os.kill(first.pid, signal.SIGCONT)
        wait_for(lambda: "lease lost" in log.read_text(), "the zombie's end")
        self.assertEqual(self.site.run_row(pk)[1:], ("bug_present", None, 2))
        self.assertEqual(self.site.sql("SELECT digest FROM runner_evidence"), before)
        self.assertEqual(len(before), 1)
        worker = "SELECT worker FROM runner_run"
        self.assertTrue(self.site.sql(worker)[0][0].startswith("second@"))


@tag("servers")
class LongTest(ChaosCase):
    """200 runs and 20 kills, on each set-up that is recommended."""

    def two_hundred(self) -> None:
        options = ("--runs", "200", "--kills", "20", "--nodes", "3", "--seed", "3")
        report = self.chaos(*options, "--patience", "300")
        self.assert_all_well(report, 200)
        self.assertGreaterEqual(report["interrupted"], 7)

    @tag("gauntlet")  # A minute; EmbeddedTest is the same with sixty runs.
    def test_embedded(self) -> None:
        self.two_hundred()

    def test_rabbitmq_and_postgresql(self) -> None:
        self.use(
            DATABASE_URL=servers.postgres_database(self),
            CELERY_BROKER_URL=servers.RABBITMQ,
            QUEUE_PREFIX=servers.queue_prefix(self, servers.RABBITMQ, QUEUES),
        )
        self.two_hundred()

    def test_redis_passes_a_smoke_test(self) -> None:
        self.use(
            CELERY_BROKER_URL=servers.REDIS,
            QUEUE_PREFIX=servers.queue_prefix(self, servers.REDIS, QUEUES),
        )
        report = self.chaos("--runs", "30", "--kills", "3", "--seed", "4")
        self.assert_all_well(report, 30)

    def test_the_database_goes_away_under_load(self) -> None:
        self.use(
            DATABASE_URL=servers.postgres_database(self),
            CELERY_BROKER_URL=servers.RABBITMQ,
            QUEUE_PREFIX=servers.queue_prefix(self, servers.RABBITMQ, QUEUES),
        )
        report = self.chaos("--runs", "60", "--kills", "6", "--cut-database")
        self.assert_all_well(report, 60)
        self.assertEqual(report["kills"], {"database": 6})
        self.assertEqual(report["reasons"], {})


@tag("servers")
class BrokerDownTest(ChaosCase):
    DOWN_S = 30
    CLICK_S = 1.5

    def test_clicks_answer_and_every_run_finishes_later(self) -> None:
        proxy = servers.Proxy(servers.RABBITMQ)
        self.addCleanup(proxy.close)
        prefix = servers.queue_prefix(self, servers.RABBITMQ, QUEUES)
        self.use(CELERY_BROKER_URL=proxy.url, QUEUE_PREFIX=prefix)
        self.site.migrate()
        self.site.install(Path(sys.executable))
        self.node("node")
        self.click(0)
        wait_for(self.all_finished, "the first run")
        taken = []
        began = time.monotonic()
        for number, mode in enumerate(["refuse", "hang"] * 3, start=1):
            proxy.set_mode(mode)
            taken += [self.click(10 * number + n) for n in range(2)]
            left = began + self.DOWN_S * number / 6 - time.monotonic()
            time.sleep(max(0.0, left))
        proxy.set_mode("forward")
        wait_for(self.all_finished, "the others")
        sys.stderr.write(f"clicks without a broker: at most {max(taken):.2f} s\n")
        self.assertLess(max(taken), self.CLICK_S)
        self.assertEqual(self.site.sql("SELECT count(*) FROM runner_run"), [(13,)])

    def click(self, number: int) -> float:
        text, name = runs.source() + f"# {number}\n", f"repro_{number}"
        return float(self.site.python(CLICK, text=text, name=name))

    def all_finished(self) -> bool:
        query = "SELECT count(*) FROM runner_run WHERE state <> 'finished'"
        return self.site.sql(query) == [(0,)]
