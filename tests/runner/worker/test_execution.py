"""One run from claim to finish: what is written, what stops it, what it leaves."""

from __future__ import annotations

import logging
import tempfile
import threading
from pathlib import Path
from unittest import mock

from django.test import TransactionTestCase

from kb.models import Finding
from runner import sandbox
from runner.models import Build, Evidence, Installation, Run
from runner.runs import jobs, retries, submission
from runner.runs.live_log import LiveLog
from runner.runs.refusals import RunRefused
from runner.worker import execution
from tests.support import runs

FOR_EVER = "import signal\nsignal.pause()"


class ExecutionTest(TransactionTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.installation = runs.install(runs.stand_in_torch(self.folder))
        logging.getLogger("runner").setLevel(logging.WARNING)
        quick = mock.patch.object(retries, "BEAT_SECONDS", 0.2)
        quick.start()
        self.addCleanup(quick.stop)

    def claimed(self, text: str = "", **fields: object) -> Run:
        runs.make_run(runs.make_repro(text), **fields)
        return runs.claimed()

    def ended(self, run: Run) -> tuple[str, str | None, str | None]:
        run.refresh_from_db()
        return run.state, run.verdict, run.reason

    def test_a_run_ends_with_verdict_evidence_and_log(self) -> None:
        run = self.claimed(trials=2)
        self.assertTrue(execution.execute(run))
        self.assertEqual(self.ended(run), ("finished", "bug_present", None))
        assert run.evidence
        body = run.evidence.body
        self.assertEqual((run.hits, body["trials"]), (2, 2))
        held = sandbox.tier()
        self.assertEqual(body["tier"], held.tier)
        self.assertEqual(body["limits"]["layers"].keys(), held.layers.keys())
        self.assertEqual(body["workarounds"], {"off": "verified"})
        self.assertEqual((body["record"], body["origin"]), ("NAN-9001", "site"))
        self.assertEqual(Finding.objects.triggers().get().verdict, "bug_present")
        lines = list(run.log.values_list("seq", "check_name", "stream", "text"))
        self.assertEqual([line[0] for line in lines], list(range(1, len(lines) + 1)))
        self.assertIn(("control", "stdout", "control speaks"), [x[1:] for x in lines])
        self.assertIn("trigger 2/2 · started", [line[3] for line in lines])

    def test_a_cancelled_run_stops_and_has_no_verdict(self) -> None:
        run = self.claimed(runs.source(trigger=FOR_EVER))
        jobs.cancel(run)
        self.assertTrue(execution.execute(run))
        self.assertEqual(self.ended(run), ("cancelled", None, None))
        self.assertEqual(Evidence.objects.count(), 0)

    def test_whoever_lost_the_lease_stops_and_writes_nothing(self) -> None:
        run = self.claimed(runs.source(trigger=FOR_EVER))
        Run.objects.filter(pk=run.pk).update(attempt=2, worker="another")
        with self.assertLogs("runner.worker.execution", "WARNING"):
            self.assertFalse(execution.execute(run))
        self.assertEqual(self.ended(run), ("running", None, None))
        self.assertEqual((run.worker, run.log.count()), ("another", 0))

    def test_a_disk_that_takes_nothing_is_no_lost_worker(self) -> None:
        run = self.claimed()
        with mock.patch.object(tempfile, "tempdir", "/nowhere/at/all"):
            self.assertTrue(execution.execute(run))
        self.assertEqual(self.ended(run), ("finished", "error", "refused"))
        self.assertIn("/nowhere/at/all", run.log.get(stream="harness").text)

    def test_a_keeper_that_fails_stops_its_run(self) -> None:
        run = self.claimed(runs.source(trigger=FOR_EVER))
        failing = mock.patch.object(LiveLog, "append", side_effect=ValueError("bug"))
        hook = mock.patch.object(threading, "excepthook")
        logged = self.assertLogs("runner.worker.execution", "WARNING")
        with failing, hook as told, logged:
            self.assertFalse(execution.execute(run))
        self.assertIn("bug", str(told.call_args[0][0].exc_value))
        self.assertEqual(self.ended(run), ("running", None, None))

    def test_a_vanished_interpreter_is_build_missing_once(self) -> None:
        Path(self.installation.interpreter).unlink()
        run = self.claimed()
        with self.assertLogs("runner.worker.execution", "WARNING"):
            execution.execute(run)
        self.assertEqual(self.ended(run), ("finished", "error", "build_missing"))
        self.assertEqual(Installation.objects.get().state, "missing")
        with self.assertRaises(RunRefused):
            submission.submit(run.repro, run.build, "cpu", 1)

    def test_another_torch_under_the_same_path_is_not_the_build(self) -> None:
        runs.stand_in_torch(self.folder, "9.9.1+cpu")
        run = self.claimed()
        execution.execute(run)
        self.assertEqual(self.ended(run), ("finished", "error", "build_missing"))
        installation = Installation.objects.get()
        self.assertEqual(installation.state, "broken")
        self.assertIn("9.9.1-cpu now", installation.error)
        self.assertEqual(Evidence.objects.count(), 0)

    def test_evidence_that_is_not_taken_ends_the_run(self) -> None:
        run = self.claimed()
        Build.objects.update(raw="9.9.0+another")
        execution.execute(run)
        self.assertEqual(self.ended(run), ("finished", "error", "refused"))
        self.assertEqual(Evidence.objects.count() + Finding.objects.count(), 0)

    def test_a_torch_that_cannot_be_imported_leaves_its_log(self) -> None:
        (self.folder / "lib" / "torch" / "__init__.py").write_text(
            "import nothing_such"
        )
        run = self.claimed()
        execution.execute(run)
        self.assertEqual(self.ended(run), ("finished", "error", "import"))
        self.assertIn("nothing_such", "".join(run.log.values_list("text", flat=True)))

    def test_a_source_that_changed_meanwhile_does_not_run(self) -> None:
        run = self.claimed()
        runs.make_repro(runs.source(trigger="return {'nonfinite': 0}"))
        run = Run.objects.select_related("repro").get(pk=run.pk)
        execution.execute(run)
        self.assertEqual(self.ended(run), ("finished", "error", "refused"))

    def test_a_crash_is_an_error_with_evidence(self) -> None:
        run = self.claimed(runs.source(trigger="import os\nos.abort()"))
        execution.execute(run)
        self.assertEqual(self.ended(run), ("finished", "error", "crash:SIGABRT"))
        self.assertIsNotNone(run.evidence)
