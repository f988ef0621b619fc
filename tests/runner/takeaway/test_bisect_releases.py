"""`repro.py --bisect-releases`: for somebody without the site, by the real pip.

The wheels of a folder only say who they are, and no index is asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from django.test import SimpleTestCase, tag

from runner.takeaway.single_file import single_file
from tests.runner.builds.test_install import offline, stand_in_wheel
from tests.runner.takeaway.test_single_file import CHECKS, unsaved
from tests.support import runs

TURNS_BAD = """
import torch
if torch.__version__ == "9.2.0":
    return {"not_applicable": "no such op"}
return {"nonfinite": int(torch.__version__ >= "9.3"), "grad": 1.0}
"""
RELEASES = ("9.1.0", "9.2.0", "9.3.0")


@tag("long")
class ReleasesTest(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.scratch = self.folder / "tmp"
        self.scratch.mkdir()
        self.wheels = self.folder / "wheels"
        for release in RELEASES:
            stand_in_wheel(self.wheels, release)
        self.environ = {
            **os.environ,
            **offline(self.wheels),
            "TMPDIR": str(self.scratch),
        }
        self.file = self.folder / "repro.py"
        text = runs.source(CHECKS, trigger=TURNS_BAD)
        self.file.write_text(single_file(unsaved(text)), encoding="utf-8")

    def run_file(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, str(self.file), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=self.folder,
            env=self.environ,
            timeout=300,
        )
        self.assertEqual(list(self.scratch.iterdir()), [], "something was left behind")
        return done

    def test_nothing_is_installed_unasked(self) -> None:
        done = self.run_file("--bisect-releases", "9.1..9.3")
        self.assertEqual(done.returncode, 2)
        self.assertIn("3 releases from 9.1.0 to 9.3.0", done.stderr)
        self.assertIn("--yes", done.stderr)
        self.assertEqual(self.run_file("--bisect-releases", "9.3..9.1").returncode, 2)

    def test_an_installer_that_fails_is_quoted_without_its_advice(self) -> None:
        for wheel in self.wheels.glob("numpy-*"):
            wheel.unlink()
        done = self.run_file("--bisect-releases", "9.1..9.3", "--yes")
        self.assertEqual(done.returncode, 2)
        self.assertIn("python: ERROR: Could not find a version", done.stderr)
        self.assertIn("No matching distribution found for numpy", done.stderr)
        self.assertNotIn("[notice]", done.stderr)

    def test_the_release_is_found_and_what_is_known_is_not_asked_again(self) -> None:
        asked = ("--bisect-releases", "9.1..9.3", "--yes", "--json", "found.json")
        done = self.run_file(*asked, "--trials", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no bug in 9.1.0, bug in 9.3.0", done.stdout)
        whole = json.loads((self.folder / "found.json").read_text())
        answers = {row["release"]: row["answer"] for row in whole["asked"]}
        wanted = {"9.1.0": "good", "9.2.0": "unknown", "9.3.0": "bad"}
        self.assertEqual(answers, wanted)
        self.assertEqual(whole["found"]["unknown"], ["9.2.0"])
        # Killed after its two ends: only what has no verdict is asked again.
        whole["asked"], whole["found"] = whole["asked"][:2], None
        (self.folder / "found.json").write_text(json.dumps(whole))
        again = self.run_file(*asked, "--trials", "1")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertNotIn("torch 9.1.0:", again.stderr)
        self.assertIn("torch 9.2.0:", again.stderr)
        (self.folder / "found.json").write_text(json.dumps({**whole, "repro": "other"}))
        self.assertIn("name another", self.run_file(*asked).stderr)
