"""A repro for any device, on one that torch alone knows."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import SimpleTestCase

from tests.support import kits, runs

HARNESS = Path(settings.BASE_DIR) / "portable" / "harness"


class OtherDeviceTest(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.python = runs.stand_in_torch(self.folder)
        self.torch = self.folder / "lib" / "torch" / "__init__.py"
        self.torch.write_text(kits.WITH_NPU)

    def run_it(self, *arguments: str, source: str = "") -> tuple[int, Any, str]:
        repro = self.folder / "repro.py"
        repro.write_text(source or kits.for_any_device())
        done = subprocess.run(
            [str(self.python), str(HARNESS), str(repro), "--json", *arguments],
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout and json.loads(done.stdout), done.stderr

    def test_it_runs_there_and_the_evidence_says_where(self) -> None:
        status, evidence, _err = self.run_it("--device", "npu")
        self.assertEqual((status, evidence["verdict"]), (1, "bug_present"))
        device = evidence["device"]
        found = device["class"], device["name"], device["count"]
        self.assertEqual(found, ("npu", "TEST NPU", 1))
        # And without the word on the CPU, as ever.
        status, evidence, _err = self.run_it()
        self.assertEqual((status, evidence["verdict"]), (0, "bug_absent"))
        self.assertEqual(evidence["device"]["class"], "cpu")

    def test_where_there_is_none_it_does_not_apply(self) -> None:
        for device in ("mps", "xpu", "cuda"):
            status, evidence, _err = self.run_it("--device", device)
            found = evidence["verdict"], evidence["reason"], evidence["device"]["class"]
            self.assertEqual(found, ("not_applicable", "device", device))
            self.assertEqual(status, 125)

    def test_a_torch_that_puts_nothing_there_runs_nothing(self) -> None:
        text = kits.WITH_NPU.replace("def set_default_device", "def set_default_type")
        self.torch.write_text(text)
        _status, evidence, _err = self.run_it("--device", "npu")
        self.assertEqual(evidence["reason"], "device")

    def test_a_repro_that_is_not_declared_for_it_is_refused(self) -> None:
        status, _evidence, err = self.run_it("--device", "npu", source=runs.source())
        self.assertEqual(status, 2)
        self.assertIn("this repro is none for npu", err)
