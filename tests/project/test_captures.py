"""The call that made a NaN: kept, shrunk, explained, and run on each torch here."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from django.core.management import call_command
from django.test import SimpleTestCase, TestCase, tag

from kb.records.files import read_all
from kb.records.snippets import snippets_in
from portable import harness
from portable.nan_probe.known import DIAGNOSES, RECORDS, known_by
from runner.builds import registry
from runner.takeaway.probe import NAME, nan_probe
from tests import TESTS
from tests.bench import probe
from tests.support import loaded
from tests.support.builds import torch_python
from tests.support.probes import PORTABLE, pythons

PROGRAM = TESTS / "probe" / "capturing.py"
CAUSES = TESTS / "probe" / "causes.py"
ASKED = TESTS / "probe" / "diagnoses.py"
# Of each call: law, class, numbers that remain at most.
EXPECTED = {
    "log": ("log of 0", "mathematics", 1),
    "division": ("0 / 0", "mathematics", 2),
    "softmax": ("softmax of -inf only", "mathematics", 1),
    "root": ("root or power at 0, in backward", "mathematics", 1),
    "power": ("root or power at 0, in backward", "mathematics", 1),
    "exp": ("overflow of exp", "range", 1),
    "labels": ("mean of nothing", "mathematics", 2),
    "sum": ("overflow of a sum", "range", 4),
    "product": ("overflow of a product or square", "range", 2),
    "constant": ("a number in the code that is not finite", "input", 1),
    "other log": ("log of a negative number", "mathematics", 1),
    "several": ("a number / 0", "mathematics", 4),
    "variance": ("variance of one value", "mathematics", 1),
    "cast": ("overflow of a cast", "range", 1),
    "arc": ("acos or asin at 1 or -1, in backward", "mathematics", 1),
}


def started(*command: str, cwd: str | Path) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=900, cwd=cwd, env=environ
    )


@cache
def made() -> dict[str, Any]:
    def ask() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as name:
            done = started(torch_python(), str(PROGRAM), str(PORTABLE), cwd=name)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    found: dict[str, Any] = loaded.once("captures", ask)
    return found


@tag("long")
class CallTests(SimpleTestCase):
    def test_it_is_shrunk_and_its_cause_stays(self) -> None:
        for name, (law, kind, numbers) in EXPECTED.items():
            found = made()["shrunk"][name]
            with self.subTest(name):
                self.assertEqual((found["law"], found["class"]), (law, kind))
                self.assertLessEqual(found["numbers"], numbers)
                self.assertEqual(found["exit"], 1)
                self.assertLessEqual(found["lines"], 10)

    def test_what_heals_it_was_tried(self) -> None:
        found = made()["shrunk"]
        self.assertIn("a / (b + 1e-6)", found["division"]["heals"])
        self.assertEqual(found["constant"]["heals"], [])
        self.assertIn("in torch.float64", found["sum"]["heals"])
        self.assertIn("in torch.float64", found["log"]["does_not_heal"])
        self.assertEqual(found["power"]["heals"], ["torch.pow(a.clamp_min(1e-12), b)"])
        self.assertEqual(found["log"]["reference"], "inf")
        # Of the same law, but another function: its forms are not this call's.
        inside = "torch.acos(a.clamp(-1 + 2e-6, 1 - 2e-6))"
        for name, heals in (("other log", []), ("arc", [inside])):
            self.assertEqual(found[name]["heals"], heals)
            self.assertEqual(found[name]["does_not_heal"], ["in torch.float64"])

    def test_what_only_a_warning_needs_is_not_kept(self) -> None:
        self.assertEqual(made()["handed_on"], {"dim": -1})

    def test_killed_while_it_is_written_nothing_half_is_taken(self) -> None:
        found = made()["killed"]
        self.assertEqual(found["whole"] + found["empty"], 40)
        self.assertGreater(found["empty"], 30)
        self.assertGreater(found["whole"], 0)
        self.assertEqual(made()["cut_off"], 0)

    def test_each_bit_of_a_number_comes_back(self) -> None:
        found = dict(made()["bits"])
        self.assertEqual(found.pop("before"), found.pop("after"))
        for name, (before, after) in found.items():
            with self.subTest(name):
                self.assertEqual(before, after)

    def test_slice_and_law_are_those_of_the_failure(self) -> None:
        root, larger, log, constant = made()["sliced"]
        text = "backward of sqrt(sum(pow(sub(x, x): 0, 2): 0): 0)"
        self.assertEqual([root["slice"], larger["slice"]], [text, text])
        self.assertEqual(root["known"][:8], "NAN-0016")
        self.assertEqual(log["law"], "log of 0")
        self.assertEqual(log["slice"], "log(softmax(x): 0)")
        self.assertEqual(constant["law"], "a number in the code that is not finite")

    def test_memory_that_is_only_written_to_is_not_read(self) -> None:
        # Nor by the copy that is kept of what is written to: a weight is made so.
        self.assertEqual(made()["overwritten"], ["op"])

    def test_an_issue_is_told_which_record_has_this_slice(self) -> None:
        found = made()["told"]
        self.assertEqual(found["known"].count("Known: NAN-0016"), 1)
        self.assertNotIn("Known:", found["unknown"])

    def test_the_reports_of_ranks_become_one(self) -> None:
        lines = made()["merged"].splitlines()
        self.assertIn("  op: y", lines)
        self.assertIn("  other ranks: 0 of 2: x, not seen: rank", lines)

    def test_the_repro_stands_alone(self) -> None:
        self.assertEqual(made()["repro"], {"log": 1, "root": 1})


class KnownTests(SimpleTestCase):
    """A record's own diagnosis, asked about what was caught of its trigger."""

    def test_it_says_yes_of_its_trigger_and_no_of_ones(self) -> None:
        codes = {}
        for path in probe.repros():
            record = probe.record_of(path.parent.name)
            if record in DIAGNOSES:
                name = f"diagnose_{DIAGNOSES[record][0]}"
                codes[record] = str(path), snippets_in(path.read_text())[name]
        self.assertEqual(codes.keys(), DIAGNOSES.keys())
        with tempfile.TemporaryDirectory() as name:
            file = Path(name, "codes.json")
            file.write_text(json.dumps(codes))
            done = started(
                torch_python(), str(ASKED), str(PORTABLE), str(file), cwd=name
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        for record, said in json.loads(done.stdout).items():
            with self.subTest(record):
                text, law = RECORDS[record]
                self.assertEqual(said["slice"], text)
                self.assertEqual(known_by(text, law)[0], [record])
                plain = said["function"].rpartition(".")[2].strip("_")
                self.assertIn(plain, DIAGNOSES[record][1].split())
                self.assertEqual([said["captured"], said["ones"]], [True, False])

    def test_an_equal_law_names_no_record(self) -> None:
        for text, law in RECORDS.values():
            self.assertEqual(known_by("sub(" + text, law)[0], [])
            self.assertEqual(known_by(None, law)[0], [])


@tag("any_database")
class ScriptTests(TestCase):
    """From a training script as it is to a verdict of each torch."""

    def test_where_nothing_can_be_kept_the_report_and_the_script_go_on(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            probe = Path(name, NAME)
            probe.write_text(nan_probe())
            kept = str(Path(name, NAME, "kept"))  # below a file
            script = ["--capture", kept, str(CAUSES), "plain", "root_of_zero"]
            done = started(torch_python(), str(probe), *script, cwd=name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("  op: SqrtBackward0", done.stderr)
        self.assertIn("  capture: none: [Errno", done.stderr)

    def test_a_capture_is_run_by_every_torch(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            probe = Path(name, NAME)
            probe.write_text(nan_probe())
            script = ["--capture", "kept", str(CAUSES), "plain", "root_of_zero"]
            done = started(torch_python(), str(probe), *script, cwd=name)
            self.assertIn("  heals: torch.sqrt(a + 1e-12)", done.stderr)
            self.assertEqual(list(Path(name, "kept").glob(".*")), [])
            (path,) = Path(name, "kept").glob("*/capture.json")
            asked = [word for one in pythons() for word in ("--python", one)]
            done = started(
                torch_python(), str(probe), str(path), "--markdown", *asked, cwd=name
            )
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(done.stdout.count("| not finite |"), len(pythons()))
            self.assertIn("torch.autograd.grad(loss", done.stdout)
            capture = json.loads(path.read_text())
            self.becomes_a_record(path, Path(name))
        values = [one["tensor"]["values"] for one in capture["call"]["args"]]
        self.assertEqual(values, [["0x0.0p+0"]])
        # No name or line of the program, and what is known of such a slice.
        self.assertNotIn("causes", json.dumps(capture))

    def becomes_a_record(self, capture: Path, folder: Path) -> None:
        """Its draft runs: the bug is there, and what heals it is verified."""
        issues = folder / "issues"
        issues.mkdir()
        python = Path(torch_python())
        with patch.object(registry, "default_interpreter", return_value=python):
            call_command(
                *("new_record", "from-capture", str(issues)),
                *("--from-capture", str(capture)),
                stdout=StringIO(),
            )
        (record,) = read_all(issues)
        self.assertEqual(record.facts["symptom_class"], "nan_grad")
        repro = issues / "from-capture" / "repro.py"
        fork = harness.Forks(str(python)).start
        start = harness.start_plain(str(python), str(repro), fork=fork)
        found = harness.drive(repro.read_text(), start)
        self.assertEqual(found["verdict"], "bug_present", found["checks"])
        self.assertEqual(found["workarounds"], {"todo_name": "verified"})
