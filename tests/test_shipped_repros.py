"""Every repro of every record, executed on real torch, against what was recorded.

One class for each repro, so that a parallel run spreads them over the cores.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import SimpleTestCase

from runner import execution, harness
from tests.builds import torch_python

ISSUES = Path(settings.ISSUES_DIR)
# On the default build. Elsewhere the committed evidence of that build speaks.
DEFAULT = "2.13.0-cpu"
VERDICTS: dict[tuple[str, str], tuple[str, str | None]] = {
    ("NAN-0001", "repro"): ("not_applicable", "device"),
    ("NAN-0002", "repro"): ("bug_present", None),
    ("NAN-0003", "repro"): ("not_applicable", "device"),
    ("NAN-0004", "repro"): ("not_applicable", "stack"),
    ("NAN-0004", "repro_model"): ("bug_present", None),
    ("NAN-0005", "repro"): ("not_applicable", "stack"),
    ("NAN-0005", "repro_model"): ("bug_present", None),
    ("NAN-0006", "repro"): ("not_applicable", "device"),
    ("NAN-0006", "repro_model"): ("bug_present", None),
    ("NAN-0007", "repro"): ("bug_present", None),
}


@cache
def folder_of(record: str) -> Path:
    for facts in ISSUES.glob("*/issue.toml"):
        if f'id = "{record}"' in facts.read_text().splitlines():
            return facts.parent
    raise AssertionError(f"no record {record} in {ISSUES}")


def source_of(record: str, name: str = "repro") -> str:
    return (folder_of(record) / f"{name}.py").read_text()


def run(source: str, record: str, name: str = "repro") -> dict[str, Any]:
    """The evidence of a source under the build of the tests, as the site makes it."""
    job = execution.Job(source, name, record)
    quiet = execution.Listeners(phase=lambda phase, text: None)
    return execution.run_now(job, torch_python(), quiet, hide_gpus=True)


class ShippedRepro:
    """What holds for each; a class below names the record."""

    record: str
    name = "repro"

    def test_it_shows_what_was_recorded(self) -> None:
        assert isinstance(self, SimpleTestCase)
        found = run(source_of(self.record, self.name), self.record, self.name)
        if (found["verdict"], found["reason"]) == ("not_applicable", "compiler"):
            self.skipTest(found["checks"][0]["log"]["text"].strip().splitlines()[-1])
        build = found["build"]["slug"]
        if build == DEFAULT:
            wanted = VERDICTS[self.record, self.name]
            self.assertEqual((found["verdict"], found["reason"]), wanted, found)
        kept = folder_of(self.record) / "evidence" / f"{self.name}-{build}.json"
        if build == DEFAULT or kept.exists():
            recorded = json.loads(kept.read_text())
            for key in ("verdict", "reason", "hits", "workarounds", "refuted"):
                self.assertEqual(found[key], recorded[key], key)
        if found["repro"]["fidelity"] == "mechanism_model":
            self.assertIsNone(found["is_affected"])


class Nan0001Test(ShippedRepro, SimpleTestCase):
    record = "NAN-0001"


class Nan0002Test(ShippedRepro, SimpleTestCase):
    record = "NAN-0002"


class Nan0003Test(ShippedRepro, SimpleTestCase):
    record = "NAN-0003"


class Nan0004Test(ShippedRepro, SimpleTestCase):
    record = "NAN-0004"


class Nan0004ModelTest(ShippedRepro, SimpleTestCase):
    record, name = "NAN-0004", "repro_model"


class Nan0005Test(ShippedRepro, SimpleTestCase):
    record = "NAN-0005"


class Nan0005ModelTest(ShippedRepro, SimpleTestCase):
    record, name = "NAN-0005", "repro_model"


class Nan0006Test(ShippedRepro, SimpleTestCase):
    record = "NAN-0006"


class Nan0006ModelTest(ShippedRepro, SimpleTestCase):
    record, name = "NAN-0006", "repro_model"


class Nan0007Test(ShippedRepro, SimpleTestCase):
    record = "NAN-0007"


class MutationTest(SimpleTestCase):
    """A repro that no longer shows anything must not look as if it did."""

    def mutated(self, check: str, body: str) -> dict[str, Any]:
        """NAN-0002 with one check replaced; refuted advice is left out for speed."""
        source = source_of("NAN-0002").replace("def refuted_", "def left_out_")
        renamed, count = re.subn(rf"def {check}\(", "def replaced(", source)
        self.assertEqual(count, 1)
        text = f"{renamed}\n\ndef {check}():\n    {body}\n"
        return run(text, "NAN-0002")

    def test_an_emptied_workaround_is_not_verified(self) -> None:
        found = self.mutated("workaround_disable_checkpointing", "return {}")
        self.assertEqual(found["verdict"], "bug_present")
        self.assertEqual(found["workarounds"]["disable_checkpointing"], "untested")
        self.assertEqual(found["workarounds"]["use_reentrant_false"], "verified")

    def test_a_trigger_that_is_the_control_shows_no_bug(self) -> None:
        found = self.mutated("trigger", "return control()")
        self.assertEqual(found["verdict"], "bug_absent")
        self.assertEqual(set(found["workarounds"].values()), {"untested"})

    def test_a_detector_that_is_the_control_leaves_no_verdict(self) -> None:
        found = self.mutated("detector", "return control()")
        self.assertEqual(found["verdict"], "inconclusive")
        self.assertEqual(found["reason"], "detector_silent")


class CoverageTest(SimpleTestCase):
    def test_every_shipped_repro_is_in_the_table(self) -> None:
        shipped = set()
        for path in ISSUES.glob("*/repro*.py"):
            header, _ = harness.read_repro(path.read_text())
            shipped.add((header.record, path.stem))
        self.assertEqual(shipped, set(VERDICTS))
