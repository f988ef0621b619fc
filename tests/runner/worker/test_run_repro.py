"""`manage.py run_repro`: exit status and output of the contract."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.test import TestCase, override_settings, tag

from portable import harness
from runner.models import Evidence, Installation, Run
from tests.support import jails, runs


@tag("any_database")  # nothing is stored
class RunReproTest(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.python = runs.stand_in_torch(self.folder)
        runs.install(self.python)

    def command(self, *arguments: object) -> tuple[int, str, str]:
        out, err = StringIO(), StringIO()
        with self.assertRaises(SystemExit) as caught:
            call_command("run_repro", *arguments, stdout=out, stderr=err)
        assert isinstance(caught.exception.code, int)
        return caught.exception.code, out.getvalue(), err.getvalue()

    def refusal(self, *arguments: object) -> str:
        status, out, err = self.command(*arguments)
        self.assertEqual((status, out), (2, ""))
        self.assertNotIn("Traceback", err)
        return err

    def test_exit_status_is_the_verdict(self) -> None:
        for text, status in {
            runs.source(): 1,
            runs.source(trigger="return {'nonfinite': 0, 'grad': 1.0}"): 0,
            runs.source(trigger="return {'not_applicable': 'no such op'}"): 125,
            runs.source(detector="return {'nonfinite': 0}"): 2,
            runs.source(control="raise ValueError"): 2,
        }.items():
            runs.make_repro(text)
            self.assertEqual(self.command("NAN-9001", "--json")[0], status, text)

    def test_json_is_all_there_is_on_standard_output(self) -> None:
        runs.make_repro()
        _, out, err = self.command("nan-9001", "--json", "--trials", "2")
        body = json.loads(out)
        self.assertEqual(out, harness.dumps(body) + "\n")
        self.assertEqual((body["record"], body["trials"]), ("NAN-9001", 2))
        self.assertEqual(body["digest"], harness.evidence_digest(body))
        self.assertIn("trigger 2/2", err)

    def test_a_person_gets_both_languages(self) -> None:
        runs.make_repro()
        _, out, _ = self.command("NAN-9001")
        self.assertIn("✖ FAIL · bug reproduced (1/1)", out)
        self.assertIn("✖ 未通过 · 缺陷已复现（1/1）", out)
        self.assertIn("✔ Workaround verified: off", out)

    def test_a_workaround_with_a_wrong_number_changes_the_result(self) -> None:
        runs.make_repro(
            runs.source(workaround_off="return {'nonfinite': 0, 'grad': 7.0}")
        )
        _, out, _ = self.command("NAN-9001")
        self.assertIn("✖ Workaround: it changes the result: grad is 7.0 here", out)
        self.assertNotIn("not tested", out)

    def test_a_diagnosis_that_is_always_true_is_told(self) -> None:
        told = "✖ diagnose_it: must be true in each trigger and false in the control"
        seen = "return {{'nonfinite': {}, 'grad': 1.0, 'diagnose_it': {}}}"
        for control in (True, False):
            text = runs.source(
                control=seen.format(0, control), trigger=seen.format(7, True)
            )
            runs.make_repro(text)
            self.assertEqual(told in self.command("NAN-9001")[1], control)

    def test_nothing_is_stored(self) -> None:
        runs.make_repro()
        self.command("NAN-9001", "--json")
        self.assertEqual(Run.objects.count() + Evidence.objects.count(), 0)

    def test_what_does_not_exist_is_said_clearly(self) -> None:
        runs.make_repro()
        self.assertIn("no record NAN-0404", self.refusal("NAN-0404"))
        self.assertIn("It has: repro.", self.refusal("NAN-9001", "--repro", "other"))
        self.assertIn(f"It has: {runs.SLUG}.", self.refusal("NAN-9001", "--build", "x"))
        gone = self.folder / "gone.py"
        self.assertIn("cannot be read", self.refusal("--file", gone))
        Installation.objects.all().delete()
        with override_settings(BUILDS_DIR=self.folder / "none"):
            self.assertIn("builds add", self.refusal("NAN-9001"))

    def test_the_default_build_needs_no_row(self) -> None:
        Installation.objects.all().delete()
        runs.make_repro()
        home = self.folder / "builds" / "2.13.0-cpu" / "bin"
        home.mkdir(parents=True)
        (home / "python").symlink_to(self.python)
        with override_settings(BUILDS_DIR=self.folder / "builds"):
            self.assertEqual(self.command("NAN-9001", "--json")[0], 1)

    @override_settings(SANDBOX_MIN_TIER="D")
    def test_a_file_belongs_to_no_record(self) -> None:
        path = self.folder / "mine.py"
        path.write_text(runs.source())
        status, out, _ = self.command("--file", path, "--json")
        body = json.loads(out)
        self.assertEqual((status, body["record"]), (1, None))
        self.assertEqual(body["repro"]["name"], "mine")

    @override_settings(SANDBOX_MIN_TIER="D")
    def test_a_file_that_keeps_no_contract_has_every_problem_named(self) -> None:
        path = self.folder / "mine.py"
        path.write_text("def control(): ...\n")
        self.assertIn("run_repro: ", self.refusal("--file", path))

    @override_settings(SANDBOX_MIN_TIER="B")
    def test_an_unreviewed_file_needs_the_wanted_tier(self) -> None:
        path = self.folder / "mine.py"
        path.write_text(runs.source())
        jails.leave_limits_only(self)
        self.assertIn("SANDBOX_MIN_TIER=D", self.refusal("--file", path))
        runs.make_repro()
        self.assertEqual(self.command("--file", path, "--json")[0], 1)

    def test_a_crash_of_the_command_itself_is_not_a_verdict(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", CRASH],
            cwd=settings.BASE_DIR,
            capture_output=True,
            text=True,
        )
        self.assertIn("on purpose", done.stderr)
        self.assertEqual(done.returncode, 2)


CRASH = """
from runner import exits
exits.crash_with_two()
raise RuntimeError("on purpose")
"""
