"""One run from claim to finish: what is written, what stops it, what it leaves."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

from django.test import SimpleTestCase, TransactionTestCase

from kb.models import Finding
from runner import builds, execution, harness, ledger, sandbox
from runner.models import Build, Evidence, Installation, Run
from tests import runs
from tests.builds import torch_python

QUEUE = f"{runs.SLUG}.cpu"
FOR_EVER = "import signal\nsignal.pause()"


class ExecutionTest(TransactionTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.installation = runs.install(runs.stand_in_torch(self.folder))
        logging.getLogger("runner").setLevel(logging.WARNING)
        quick = mock.patch.object(ledger, "BEAT_SECONDS", 0.2)
        quick.start()
        self.addCleanup(quick.stop)

    def claimed(self, text: str = "", **fields: object) -> Run:
        runs.make_run(runs.make_repro(text), **fields)
        run = ledger.claim([QUEUE], "w")
        assert run
        return run

    def ended(self, run: Run) -> tuple[str, str | None, str | None]:
        run.refresh_from_db()
        return run.state, run.verdict, run.reason

    def test_a_run_ends_with_verdict_evidence_and_log(self) -> None:
        run = self.claimed(trials=2)
        self.assertTrue(execution.execute(run))
        self.assertEqual(self.ended(run), ("finished", "bug_present", None))
        assert run.evidence
        body = run.evidence.body
        self.assertEqual((run.hits, body["trials"], body["tier"]), (2, 2, "D"))
        self.assertEqual(body["workarounds"], {"off": "verified"})
        self.assertEqual((body["record"], body["origin"]), ("NAN-9001", "site"))
        self.assertEqual(Finding.objects.triggers().get().verdict, "bug_present")
        lines = list(run.log.values_list("seq", "check_name", "stream", "text"))
        self.assertEqual([line[0] for line in lines], list(range(1, len(lines) + 1)))
        self.assertIn(("control", "stdout", "control speaks"), [x[1:] for x in lines])
        self.assertIn("trigger 2/2 · started", [line[3] for line in lines])

    def test_real_torch(self) -> None:
        self.installation.delete()
        torch = builds.register(Path(torch_python()), managed=False)
        assert torch.build
        text = runs.source(
            trigger="import torch\n"
            "x = torch.zeros(1, requires_grad=True)\n"
            "torch.sqrt(x).backward()\n"
            "bad = int((~torch.isfinite(x.grad)).sum())\n"
            "return {'nonfinite': bad, 'grad': 1.0}"
        )
        runs.make_run(runs.make_repro(text), build=torch.build)
        run = ledger.claim([f"{torch.build_id}.cpu"], "w")
        assert run
        execution.execute(run)
        self.assertEqual(self.ended(run), ("finished", "bug_present", None))

    def test_a_cancelled_run_stops_and_has_no_verdict(self) -> None:
        run = self.claimed(runs.source(trigger=FOR_EVER))
        ledger.cancel(run)
        self.assertTrue(execution.execute(run))
        self.assertEqual(self.ended(run), ("cancelled", None, None))
        self.assertEqual(Evidence.objects.count(), 0)

    def test_whoever_lost_the_lease_stops_and_writes_nothing(self) -> None:
        run = self.claimed(runs.source(trigger=FOR_EVER))
        Run.objects.filter(pk=run.pk).update(attempt=2, worker="another")
        with self.assertLogs("runner.execution", "WARNING"):
            self.assertFalse(execution.execute(run))
        self.assertEqual(self.ended(run), ("running", None, None))
        self.assertEqual((run.worker, run.log.count()), ("another", 0))

    def test_a_vanished_interpreter_is_build_missing_once(self) -> None:
        Path(self.installation.interpreter).unlink()
        run = self.claimed()
        with self.assertLogs("runner.execution", "WARNING"):
            execution.execute(run)
        self.assertEqual(self.ended(run), ("finished", "error", "build_missing"))
        self.assertEqual(Installation.objects.get().state, "missing")
        with self.assertRaises(ledger.RunRefused):
            ledger.submit(run.repro, run.build, "cpu", 1)

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


class SandboxTest(SimpleTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.python = runs.stand_in_torch(self.folder)

    def observations(self, lines: str) -> dict[str, object]:
        path = self.folder / "repro.py"
        path.write_text(runs.source(control=lines))
        start = sandbox.start_in(str(self.python), str(path), hide_gpus=True)
        report = start(harness.CheckSpec("control", timeout_s=60))
        self.assertIsNone(report.failure, report.log_text)
        found: dict[str, object] = report.messages[0]["observations"]
        return found

    def test_limits_hold_inside(self) -> None:
        found = self.observations(
            "import resource as r\n"
            "limits = r.RLIMIT_FSIZE, r.RLIMIT_CORE, r.RLIMIT_NOFILE\n"
            "return {'limits': [float(r.getrlimit(n)[1]) for n in limits]}"
        )
        self.assertEqual(found["limits"][:2], [sandbox.FILE_MIB * 2**20, 0])  # type: ignore[index]
        self.assertLessEqual(found["limits"][2], 4096)  # type: ignore[index]

    def test_secrets_stay_out_and_folders_go(self) -> None:
        with mock.patch.dict(os.environ, {"SECRET_KEY": "s", "DATABASE_URL": "d"}):
            found = self.observations(
                "import os\n"
                "open('left', 'w').close()\n"
                "names = ','.join(sorted(os.environ))\n"
                "gpus = os.environ['CUDA_VISIBLE_DEVICES']\n"
                "return {'names': names, 'home': os.environ['HOME'], 'gpus': gpus}"
            )
        self.assertNotRegex(str(found["names"]), "SECRET|DATABASE|DJANGO")
        self.assertEqual(found["gpus"], "")
        self.assertFalse(Path(str(found["home"])).exists())

    def test_only_abandoned_folders_are_swept(self) -> None:
        with mock.patch.object(tempfile, "tempdir", str(self.folder)):
            left = Path(tempfile.mkdtemp(prefix=sandbox.SCRATCH))
            young = Path(tempfile.mkdtemp(prefix=sandbox.SCRATCH))
            with sandbox.scratch_folder() as used:
                for folder in (str(left), used):
                    os.utime(folder, (0, 0))
                self.assertEqual(sandbox.remove_abandoned_scratch(), 1)
                self.assertTrue(Path(used).exists() and young.exists())
        self.assertFalse(left.exists())

    def test_no_interpreter_is_a_report_not_an_exception(self) -> None:
        start = sandbox.start_in(str(self.folder / "gone"), "repro.py")
        report = start(harness.CheckSpec("control"))
        self.assertEqual(report.failure, "build_missing")

    def test_the_tier_says_why_and_what_helps_in_both_languages(self) -> None:
        self.assertTrue(all(sandbox.tier()))
        self.assertEqual((sandbox.reaches("D"), sandbox.reaches("B")), (True, False))

    def test_the_command_prints_json_only(self) -> None:
        path = self.folder / "repro.py"
        path.write_text(runs.source())
        command = [sys.executable, "-m", "runner.sandbox", str(path), "--json"]
        done = subprocess.run(
            [*command, "--python", str(self.python)], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(json.loads(done.stdout)["verdict"], "bug_present")
