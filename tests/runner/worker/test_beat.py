"""What Celery does beside waking: what is periodic, and answers to `celery inspect`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db.models.functions import Now
from django.test import SimpleTestCase, TestCase, tag

from runner.models import Chore
from tests.support import servers
from tests.support.sites import PATIENCE_S, Site, wait_for

OFTEN = """\
from config.settings import *
CELERY_BEAT_SCHEDULE["prune"]["schedule"] = 0.2
"""


class ChoreTest(TestCase):
    def test_of_several_who_ask_one_does_it(self) -> None:
        day = timedelta(days=1)
        for _ in range(2):
            asked = [Chore.is_due(Chore.PRUNE, day) for _ in range(3)]
            self.assertEqual(asked, [True, False, False])
            Chore.objects.update(done_at=Now() - timedelta(hours=25))


class BeatTest(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.site = Site(self.folder / "var")
        self.addCleanup(self.site.close)

    @tag("any_database")
    def test_a_worker_does_what_is_periodic(self) -> None:
        (self.folder / "often.py").write_text(OFTEN)
        self.site.environ |= {
            "DJANGO_SETTINGS_MODULE": "often",
            "PYTHONPATH": str(self.folder),
        }
        self.site.migrate()
        self.site.start()
        done = "SELECT result FROM runner_chore WHERE name = 'prune'"
        wait_for(lambda: self.site.sql(done) not in ([], [("{}",)]), "the pruning")
        self.assertIn('"logs": 0', self.site.sql(done)[0][0])

    @tag("servers")
    def test_a_worker_answers_to_inspect_where_the_broker_can(self) -> None:
        for url in (servers.RABBITMQ, servers.REDIS):
            with self.subTest(url):
                self.assertIn("one@", self.inspect(url))

    def inspect(self, url: str) -> str:
        prefix = servers.queue_prefix(self, url, ("chores",))
        self.site.environ |= {"CELERY_BROKER_URL": url, "QUEUE_PREFIX": prefix}
        self.site.migrate()
        worker = self.site.start("--name", "one")
        command = [sys.executable, "-m", "celery", "-A", "config", "inspect", "ping"]
        said: list[str] = []

        def answered() -> bool:
            done = subprocess.run(
                [*command, "--json"],
                cwd=settings.BASE_DIR,
                env=self.site.environ,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            said.append(done.stdout)
            return done.returncode == 0

        # Before it consumes, nobody answers, and the command says so.
        wait_for(answered, "the answer")
        worker.kill()
        worker.wait()
        return said[-1]
