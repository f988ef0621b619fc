"""What the pages say while records are loaded or a torch is installed behind them."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase, TestCase, override_settings, tag

from kb import progress
from kb.progress import Step, Work
from runner.builds import registry, venvs
from runner.models import Build, Installation, Run
from runner.runs import ledger
from runner.runs.admission import FleetSnapshot
from tests.support import runs
from tests.support.sites import Site, wait_for, with_few_records

ROOT = Path(settings.BASE_DIR)
# Shows a piece of work and then waits to be ended, one way or the other.
WORKER = """
import sys
from pathlib import Path
import django
from django.conf import settings
settings.configure(DATA_DIR=Path(sys.argv[1]))
from kb import progress
with progress.of(progress.Work(sys.argv[2])) as tell:
    tell(*map(int, sys.argv[3:5]), sys.argv[5])
    print("told", flush=True)
    sys.stdin.read()
"""


class UnderwayTest(TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="with space "))
        self.addCleanup(shutil.rmtree, self.folder)
        self.enterContext(override_settings(DATA_DIR=self.folder))

    @contextmanager
    def told(
        self, work: Work, done: int, total: int, name: str = ""
    ) -> Iterator[subprocess.Popen[str]]:
        """Another process that does this work, and has said so."""
        facts = [str(self.folder), work, str(done), str(total), name]
        with subprocess.Popen(
            [sys.executable, "-c", WORKER, *facts],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout
            self.assertEqual(process.stdout.readline(), "told\n")
            yield process

    def test_what_another_process_does_is_on_every_page(self) -> None:
        said = {
            "en": "Records are being loaded: 12 of 65.",
            "zh": "正在载入记录：65 条中已处理 12 条",
        }
        with self.told(Work.RECORDS, 12, 65):
            for lang, text in said.items():
                for path in ("", "records/", "builds/", "search/?q=nan"):
                    page = self.client.get(f"/{lang}/{path}")
                    self.assertContains(page, text)
                    # It asks again by itself, and says what to do where it cannot.
                    self.assertContains(page, f'hx-get="/{lang}/underway/"')
                    self.assertContains(page, "htmx-2.0.11.min")
                    self.assertContains(page, "<noscript>")
            fragment = self.client.get("/en/underway/")
            self.assertContains(fragment, said["en"])
            self.assertIn("no-store", fragment["Cache-Control"])
        self.assertEqual(progress.underway(), [])

    def test_the_end_stops_the_asking(self) -> None:
        page = self.client.get("/en/")
        self.assertNotContains(page, "underway")
        self.assertNotContains(page, "htmx-2.0.11.min")
        fragment = self.client.get("/en/underway/")
        self.assertContains(fragment, "Everything is loaded.")
        self.assertNotContains(fragment, "hx-get")

    def test_all_that_is_underway_is_shown_in_order(self) -> None:
        with (
            self.told(Work.TORCH, 120, 967, "2.13.0-cpu"),
            self.told(Work.EVIDENCE, 3, 40),
        ):
            self.assertEqual(
                progress.underway(),
                [
                    Step(Work.EVIDENCE, 3, 40),
                    Step(Work.TORCH, 120, 967, "2.13.0-cpu"),
                ],
            )
            page = self.client.get("/en/")
        self.assertContains(page, "3 of 40 new results")
        wanted = "torch 2.13.0-cpu is being installed: 120 of about 967 MiB are on disk"
        self.assertContains(page, wanted)

    def test_a_size_that_nobody_knows_is_not_made_up(self) -> None:
        with self.told(Work.TORCH, 120, 0, "2.13.0-cpu"):
            page = self.client.get("/en/")
        self.assertContains(page, "120 MiB are on disk so far")
        with self.told(Work.TORCH, 0, 0):
            page = self.client.get("/en/")
        self.assertContains(page, "is looking for a torch")

    def test_what_a_killed_process_left_behind_says_nothing(self) -> None:
        with self.told(Work.RECORDS, 12, 65) as process:
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.assertTrue(progress.file_of(Work.RECORDS).exists())
        self.assertEqual(progress.underway(), [])

    def test_a_process_that_got_the_number_later_is_another(self) -> None:
        with progress.of(Work.RECORDS):
            path = progress.file_of(Work.RECORDS)
            self.assertTrue(progress.underway())
            path.write_text(path.read_text().replace('"born": "', '"born": "9'))
            self.assertEqual(progress.underway(), [])
            path.write_text("half a fi")
            self.assertEqual(progress.underway(), [])


class ComingBuildTest(TestCase):
    """Runs for a build that is still being installed."""

    def setUp(self) -> None:
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(override_settings(BUILDS_DIR=Path(folder)))
        self.record = runs.load_sample()
        self.python = settings.BUILDS_DIR / "9.9.9-cpu" / "bin" / "python"
        registry.expect(self.python, "9.9.9-cpu", "9.9.9+cpu")
        self.path = f"/en/{self.record.id}/{self.record.slug}/"

    def click(self) -> Run:
        fields = {"repro": "repro", "build": "9.9.9-cpu", "trials": "1"}
        answer = self.client.post(f"/en/{self.record.id}/runs/", fields)
        self.assertEqual(answer.status_code, 302, answer.content)
        return Run.objects.get()

    def test_the_panel_offers_it_and_says_that_the_run_waits(self) -> None:
        page = self.client.get(self.path)
        self.assertContains(
            page, "torch 9.9.9-cpu is being installed. You can queue a run"
        )
        self.assertContains(page, '<option value="9.9.9-cpu"')
        chinese = self.client.get(self.path.replace("/en/", "/zh/"))
        self.assertContains(chinese, "正在安装 torch 9.9.9-cpu。现在就可以提交运行")
        self.assertContains(self.client.get("/en/builds/"), "being installed")

    def test_a_run_waits_in_the_queue_until_it_is_there(self) -> None:
        run = self.click()
        self.assertEqual(ledger.reap()["build_missing"], 0)
        rows = Installation.objects.filter(interpreter=self.python)
        rows.update(state=Installation.State.READY)
        registry.expect_nothing()
        self.assertTrue(rows.exists())
        run.refresh_from_db()
        self.assertEqual(run.state, Run.State.QUEUED)
        claimed = ledger.claim(["9.9.9-cpu.cpu"], "w")
        self.assertEqual(claimed, run)

    def test_where_the_installation_fails_the_run_ends_with_the_reason(self) -> None:
        run = self.click()
        registry.expect_nothing()
        self.assertEqual(ledger.reap()["build_missing"], 1)
        run.refresh_from_db()
        self.assertEqual((run.verdict, run.reason), ("error", "build_missing"))

    def test_who_installs_nothing_does_not_take_back_what_another_said(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            builds = Path(folder)
            with override_settings(BUILDS_DIR=builds):
                with venvs.lock(builds / venvs.LOCK_NAME):
                    registry.expect_nothing()
                    self.assertTrue(Installation.objects.exists())
                registry.expect_nothing()
        self.assertFalse(Installation.objects.exists())

    def test_only_one_is_on_its_way(self) -> None:
        other = self.python.parent / "other"
        registry.expect(other, "9.9.8-cpu", "9.9.8+cpu")
        rows = Installation.objects.filter(state=Installation.State.INSTALLING)
        self.assertEqual([row.interpreter for row in rows], [str(other)])
        self.assertTrue(Build.objects.filter(slug="9.9.9-cpu").exists())

    def test_a_gpu_run_does_not_wait_for_it(self) -> None:
        repro, build = self.record.repros.get(), Build.objects.get(slug="9.9.9-cpu")
        self.assertIsNone(FleetSnapshot().refusal(repro, build, "cpu"))
        repro.device = "cuda"
        refused = FleetSnapshot().refusal(repro, build, "cuda")
        self.assertEqual(refused.code if refused else "", "no_device")


# So many that a busy machine loads them no faster than they are interrupted twice.
SOME = 30


def some_records() -> list[str]:
    """Of those that name no other record the ones with least evidence."""
    alone = [
        file.parent
        for file in settings.ISSUES_DIR.glob("*/issue.toml")
        if not tomllib.loads(file.read_text())["related"]
    ]
    alone.sort(key=lambda folder: (len(list(folder.glob("evidence/*"))), folder.name))
    return [folder.name for folder in alone[:SOME]]


@tag("long")
class LoadAllTest(SimpleTestCase):
    """`manage.py load_all`, killed in the middle and called again."""

    def test_a_kill_loses_one_record_and_the_next_call_goes_on(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="doesitnan-"))
        self.addCleanup(shutil.rmtree, folder)
        site = Site(folder / "site")
        self.addCleanup(site.close)
        site.migrate()
        names = some_records()
        site.environ.update(with_few_records(folder, names))
        count = len(names)
        shown = site.folder / "progress" / "records.json"

        def told() -> int:
            assert loading.poll() is None, "ended before it was killed"
            with contextlib.suppress(FileNotFoundError):
                return int(json.loads(shown.read_text())["done"])
            return 0

        kept = 0
        for _ in range(2):
            loading = site.process("manage.py", "load_all")
            wait_for(lambda before=kept: told() > before + 1, "one more is loaded")
            loading.kill()
            loading.communicate()
            ((now,),) = site.sql("SELECT COUNT(*) FROM kb_record")
            self.assertGreater(now, kept)
            kept = now
        self.assertLess(kept, count)
        loading = site.process("manage.py", "load_records")
        said, _ = loading.communicate()
        self.assertEqual(said.count("unchanged"), kept, said)
        self.assertEqual(said.count("created"), count - kept, said)
        again = site.process("manage.py", "load_all")
        said, _ = again.communicate()
        self.assertEqual(again.returncode, 0, said)
        self.assertIn(f"{count} records.", said)
        self.assertRegex(said, r"Evidence: \d+ added, \d+ known, 0 refused\.")
        self.assertEqual(site.sql("SELECT COUNT(*) FROM kb_record"), [(count,)])
        self.assertFalse(shown.exists())
