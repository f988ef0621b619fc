"""Repros made worse on purpose: the sources that come out, without running them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import SimpleTestCase

from portable import harness
from runner.authoring.mutations import Mutation, mutations, with_header
from tests.support import runs

CALLING = """\
def reference():
    return {"nonfinite": 0, "grad": 1.0}


def control():
    return reference()


def detector():
    return {"nonfinite": 1}


def trigger():
    return {"nonfinite": 1, "grad": float("nan")}


def workaround_off():
    return {"nonfinite": 0, "grad": 1.0}
"""
ENV = '# env = {all = {A = "1"}, control = {B = "2"}, trigger = {B = "3"}}\n# ///'


def evidence(source: str, verdict: str = "bug_present") -> dict[str, Any]:
    """As a run of this source would be recorded, by its functions called here."""
    space: dict[str, Any] = {}
    exec(source, space)
    names = harness.read_repro(source)[1]
    found = [
        {"name": name, "outcome": "clean", "observations": space[name]()}
        for name in names
    ]
    return {
        "verdict": verdict,
        "reason": None,
        "checks": harness.encode(found),
        "workarounds": {"off": "verified"},
    }


def called(mutation: Mutation, name: str) -> Any:
    space: dict[str, Any] = {}
    exec(mutation.source, space)
    return space[name]()


def shipped() -> list[tuple[Path, str]]:
    paths = sorted(settings.ISSUES_DIR.glob("*/repro*.py"))
    return [(path, path.read_text()) for path in paths]


class SourceTest(SimpleTestCase):
    def setUp(self) -> None:
        self.source = runs.source(CALLING)
        found = mutations(self.source, evidence(self.source))
        self.detector, self.trigger, self.emptied = found

    def test_headers_survive_being_written_anew(self) -> None:
        for path, source in shipped():
            with self.subTest(path.parent.name):
                header = harness.parse_header(source)
                self.assertEqual(
                    harness.parse_header(with_header(source, header)), header
                )

    def test_every_shipped_repro_can_be_mutated(self) -> None:
        count = 0
        for path, source in shipped():
            for kept in sorted(path.parent.glob(f"evidence/{path.stem}-*.json"))[-1:]:
                for mutation in mutations(source, json.loads(kept.read_text())):
                    with self.subTest(path.parent.name, what=mutation.what):
                        checks = harness.read_repro(mutation.source)[1]
                        self.assertLessEqual(set(harness.REQUIRED_CHECKS), {*checks})
                        count += 1
        self.assertGreater(count, 100)

    def test_only_the_checks_that_matter_are_left(self) -> None:
        required = ["control", "detector", "trigger"]
        for mutation, names in (
            (self.detector, required),
            (self.trigger, required),
            (self.emptied, [*required, "workaround_off"]),
        ):
            checks = harness.read_repro(mutation.source)[1]
            self.assertEqual(checks, names, mutation.what)

    def test_what_is_left_out_can_still_be_called(self) -> None:
        self.assertEqual(called(self.detector, "detector")["grad"], 1.0)
        self.assertEqual(called(self.trigger, "trigger")["grad"], 1.0)

    def test_checks_that_ran_give_back_what_they_observed(self) -> None:
        trigger = called(self.emptied, "trigger")
        self.assertNotEqual(trigger["grad"], trigger["grad"])
        self.assertEqual(called(self.emptied, "control")["grad"], 1.0)

    def test_an_emptied_workaround_observes_nothing(self) -> None:
        seen = called(self.emptied, "workaround_off")
        self.assertEqual(seen, {"nonfinite": 0, "grad": 0.0})

    def test_variables_go_with_the_check_that_takes_the_place(self) -> None:
        source = self.source.replace("# trials = 1\n# ///", ENV)
        found = mutations(source, evidence(source))
        env = harness.parse_header(found[1].source).env
        self.assertEqual(env["trigger"], env["control"])
        self.assertEqual(env["all"], {"A": "1"})

    def test_faults_are_named(self) -> None:
        kept = {"verdict": "bug_present", "reason": None, "workarounds": {}}
        (said,) = self.detector.faults(kept)
        self.assertIn("should make the run inconclusive, but it ends in bug_pre", said)
        self.assertEqual(len(self.trigger.faults(kept)), 1)
        (said,) = self.emptied.faults({**kept, "workarounds": {"off": "verified"}})
        self.assertIn("workaround_off emptied", said)
        silent = {"verdict": "inconclusive", "reason": "detector_silent"}
        self.assertEqual(self.detector.faults(silent), [])
        self.assertEqual(self.trigger.faults({"verdict": "bug_absent"}), [])
        said_of = self.emptied.faults({"workarounds": {"off": "untested"}})
        self.assertEqual(said_of, [])

    def test_where_nothing_can_be_shown_nothing_is_tried(self) -> None:
        absent = mutations(self.source, evidence(self.source, "bug_absent"))
        self.assertEqual([row.what for row in absent], [self.detector.what])
        waived = self.source.replace("match = {grad = 1e-6}", 'match_waived = "x"')
        found = mutations(waived, evidence(waived))
        self.assertNotIn(self.emptied.what, [row.what for row in found])
