"""`manage.py matrix`: which cells are missing, and that they are filled."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, TestCase, TransactionTestCase, tag

from kb.models import Repro
from kb.publishing import saving
from runner.evidence import store
from runner.management.commands import matrix
from runner.models import Installation, Run
from runner.runs import backfill, ledger, submission
from runner.runs.backfill import Filler
from tests.support import runs
from tests.support.sites import PATIENCE_S, Site, wait_for

OTHER = "9.8.0-cpu"
QUEUES = [f"{runs.SLUG}.cpu", f"{OTHER}.cpu"]


class CellsTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()
        runs.make_build(OTHER, "9.8.0+cpu")
        runs.install("/bin/true")
        runs.install("/bin/false", OTHER)

    def missing(self, *given: object, **options: bool) -> list[str]:
        return [str(cell) for cell in backfill.cells(*given, **options)]  # type: ignore[arg-type]

    def test_every_installed_build_newest_first(self) -> None:
        wanted = [f"NAN-9001 repro on {queue}" for queue in QUEUES]
        self.assertEqual(self.missing(), wanted)
        Installation.objects.filter(build=OTHER).update(state="broken")
        self.assertEqual(self.missing(), wanted[:1])

    def test_a_fresh_result_is_not_run_again(self) -> None:
        store.add(runs.make_evidence(self.repro), origin="site")
        self.assertEqual(self.missing(), [f"NAN-9001 repro on {OTHER}.cpu"])
        self.assertEqual(len(self.missing(again=True)), 2)

    def test_a_changed_repro_is_missing_again(self) -> None:
        store.add(runs.make_evidence(self.repro), origin="site")
        runs.make_repro(runs.source(trigger="return {'nonfinite': 0}"))
        store.refresh_staleness(self.repro.record)
        self.assertEqual(len(self.missing()), 2)

    def test_a_name_that_nothing_has_is_refused(self) -> None:
        for option in ("--record", "--build"):
            with self.assertRaisesMessage(CommandError, "is called nothing"):
                call_command("matrix", option, "nothing", "--dry-run")
        for given in (["--build", OTHER], ["--record", "NAN-9001"]):
            call_command("matrix", *given, "--dry-run", stdout=StringIO())

    def test_drafts_are_left_out_and_names_narrow(self) -> None:
        runs.make_repro(record="NAN-9002")
        self.assertEqual(len(self.missing()), 4)
        self.assertEqual(len(self.missing(["NAN-9002"], [OTHER])), 1)
        self.repro.record.publication = "draft"
        saving.save(self.repro.record)
        self.assertEqual(len(self.missing()), 2)


class FillerTest(TestCase):
    def setUp(self) -> None:
        for number in range(5):
            runs.make_repro(runs.source() + f"# {number}\n", f"repro_{number}")
        runs.install("/bin/true")

    def test_a_window_of_background_runs(self) -> None:
        filler = Filler(backfill.cells(), again=False, window=2)
        self.assertEqual(list(filler.step()), [])
        self.assertEqual(Run.objects.count(), 2)
        self.assertEqual(set(Run.objects.values_list("priority", flat=True)), {2})
        run = runs.claimed(*QUEUES)
        ledger.finish(run, "raised")
        (ended,) = filler.step()
        assert ended.run
        self.assertEqual((ended.run, ended.run.reason), (run, "raised"))
        self.assertEqual(Run.objects.active().count(), 2)

    def test_an_interruption_waits_until_the_run_is_counted(self) -> None:
        # The test runner has an answer of its own; in the background none is installed.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        submit = submission.submit

        def interrupted(*arguments: Any, **options: Any) -> submission.Submitted:
            found = submit(*arguments, **options)
            signal.raise_signal(signal.SIGINT)
            return found

        filler = Filler(backfill.cells(), again=False, window=2)
        with (
            mock.patch.object(submission, "submit", interrupted),
            self.assertRaises(KeyboardInterrupt),
        ):
            list(filler.step())
        self.assertEqual((len(filler.active), len(filler.left)), (1, 4))

    def test_a_second_call_follows_what_the_first_left(self) -> None:
        list(Filler(backfill.cells(), again=False, window=3).step())
        list(Filler(backfill.cells(), again=False, window=5).step())
        self.assertEqual(Run.objects.count(), 5)

    def test_a_cell_that_cannot_run_is_told_and_skipped(self) -> None:
        runs.make_repro(runs.source(device="cuda"), "on_gpu")
        filler = Filler(backfill.cells(), again=False, window=9)
        (skipped,) = filler.step()
        assert skipped.refused
        self.assertEqual(skipped.refused.code, "no_device")
        self.assertEqual(len(filler.active), 5)


# Whether a run's repro exists is asked where a transaction ends.
class DroppedTest(TransactionTestCase):
    setUp = FillerTest.setUp

    def test_a_repro_that_is_dropped_meanwhile_is_told_and_skipped(self) -> None:
        filler = Filler(backfill.cells(), again=False, window=2)
        list(filler.step())
        Repro.objects.all().delete()
        ended = [*filler.step(), *filler.step()]
        self.assertEqual([e.refused and e.refused.code for e in ended], ["gone"] * 5)
        self.assertTrue(filler.is_over)


class CommandTest(TestCase):
    def setUp(self) -> None:
        runs.make_repro()
        runs.install("/bin/true")

    def call(self, *arguments: str) -> str:
        out = StringIO()
        call_command("matrix", *arguments, stdout=out)
        return out.getvalue()

    def test_a_dry_run_queues_nothing(self) -> None:
        self.assertIn("NAN-9001 repro on 9.9.0-cpu.cpu", self.call("--dry-run"))
        self.assertEqual(Run.objects.count(), 0)

    def test_no_wait_queues_everything_once(self) -> None:
        for _ in range(2):
            self.assertIn("1 queued", self.call("--no-wait"))
        self.assertEqual(Run.objects.count(), 1)

    def test_an_interruption_leaves_the_queue_alone(self) -> None:
        with (
            mock.patch.object(matrix.time, "sleep", side_effect=KeyboardInterrupt),
            self.assertRaises(SystemExit) as caught,
        ):
            self.call()
        self.assertEqual(caught.exception.code, 130)
        self.assertEqual(Run.objects.get().state, "queued")


@tag("any_database")
class RealTest(SimpleTestCase):
    """With a real worker: interrupted, continued, and at last complete."""

    def test_it_fills_the_matrix(self) -> None:
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        site = Site(Path(folder.name) / "var")
        site.migrate()
        self.addCleanup(site.close)
        site.install(runs.stand_in_torch(Path(folder.name) / "torch"))
        for number in range(3):
            text = runs.source() + f"# {number}\n"
            code = "runs.make_repro(text, name); answer = 1"
            site.python(code, text=text, name=f"repro_{number}")
        first = site.process("manage.py", "matrix", "--window", "2")
        query = "SELECT count(*) FROM runner_run"
        wait_for(lambda: site.sql(query) == [(2,)], "two runs queued")
        first.send_signal(signal.SIGINT)
        said, _ = first.communicate(timeout=PATIENCE_S)
        self.assertEqual(first.returncode, 130, said)
        self.assertIn("2 runs stay queued, 1 cells were not asked for", said)

        second = site.process("manage.py", "matrix")
        wait_for(lambda: site.sql(query) == [(3,)], "the third run queued")
        site.start("-c", "2")
        said, _ = second.communicate(timeout=PATIENCE_S)
        self.assertIn("Done: 3 bug_present; 0 queued.", said)
        self.assertIn("[3/3] NAN-9001 repro_", said)
        third = subprocess.run(
            [*site.command, "matrix"],
            env=site.environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        self.assertIn("Missing cells: 0.", third.stdout)
