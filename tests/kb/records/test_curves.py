"""Curves beside records: executed, with and without the bug; drawn with gaps."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import SimpleTestCase
from django.utils.translation import override

from kb.models import Finding, Record
from kb.pages.record.curve import FOOT, TOP, Curve, curve_of
from kb.records.curves import SIDES, curve_files, read_curve
from kb.records.files import read_record
from portable import harness

FOLDERS = sorted(path.parent for path in Path(settings.ISSUES_DIR).glob("*/curve"))
SLUG = "clip-grad-norm-nonfinite"
RUN = "sha256:0"


def drawn(steps: dict[str, list[float | str]], scale: str = "linear") -> Curve:
    curve = curve_of(Record(curve={"steps": steps, "scale": scale, "digest": RUN}), ())
    assert curve
    return curve


class ShippedCurvesTest(SimpleTestCase):
    def test_there_are_many_and_each_shows_two_trainings(self) -> None:
        self.assertGreaterEqual(len(FOLDERS), 15)
        for folder in FOLDERS:
            with self.subTest(folder.name):
                curve = read_record(folder).curve
                bug, right = (curve["steps"][side] for side in SIDES)
                self.assertNotEqual(bug, right)
                numbers = [one for one in right if not isinstance(one, str)]
                self.assertEqual(len(numbers), len(right))


class CurveFilesTest(SimpleTestCase):
    def setUp(self) -> None:
        base = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder = base / SLUG
        shutil.copytree(Path(settings.ISSUES_DIR) / SLUG, self.folder)
        self.run_file = self.folder / "curve" / "2.13.0-cpu.json"

    def problems(self) -> str:
        with override("en"):
            return " ".join(map(" ".join, read_curve(self.folder, {}, {})))

    def ran(self, change: Any) -> None:
        """`change` made to the run, under a new digest."""
        body = json.loads(self.run_file.read_text())
        change({check["name"]: check["observations"] for check in body["checks"]})
        del body["digest"]
        self.run_file.write_text(harness.dumps(harness.sealed(body)))

    def test_a_sound_one_has_no_problem(self) -> None:
        self.assertEqual(self.problems(), "")

    def test_only_a_run_of_this_program_is_drawn(self) -> None:
        program = self.folder / "curve" / "curve.py"
        program.write_text(program.read_text().replace("lr=0.1", "lr=0.2"))
        self.assertIn("comes from another program", self.problems())

    def test_a_number_that_was_changed_is_refused(self) -> None:
        self.run_file.write_text(self.run_file.read_text().replace("0.", "1.", 1))
        self.assertIn("was changed after it was written", self.problems())

    def test_both_have_as_many_steps(self) -> None:
        self.ran(lambda checks: checks["control"]["loss"].pop())
        self.assertIn("[39, 40] steps; as many of both", self.problems())

    def test_a_logarithm_of_zero_is_not_drawn(self) -> None:
        facts = self.folder / "curve" / "curve.toml"
        facts.write_text(facts.read_text().replace('"linear"', '"log"'))
        self.ran(lambda checks: checks["control"]["loss"].__setitem__(0, 0.0))
        self.assertIn("a logarithm needs values above 0", self.problems())

    def test_another_run_makes_the_record_new(self) -> None:
        before = read_record(self.folder).files_digest
        self.assertIn("curve/2.13.0-cpu.json", curve_files(self.folder))
        self.ran(lambda checks: checks["control"]["loss"].__setitem__(0, 7.0))
        self.assertNotEqual(read_record(self.folder).files_digest, before)


class PictureTest(SimpleTestCase):
    def test_what_is_no_number_is_a_gap_and_never_a_point(self) -> None:
        losses: list[float | str] = [4.0, 2.0, *["nan"] * 8]
        with override("en"):
            curve = drawn({"trigger": losses, "control": [4.0, *[1.0] * 9]})
        bug, right = curve.lines
        self.assertEqual(len(bug.strokes[0].split()), 2)
        self.assertEqual(len(right.strokes[0].split()), 10)
        assert bug.gap
        self.assertEqual(bug.gap[2], "NaN from step 3 on")
        self.assertIn("step 3: nan with the bug, 1 without", curve.said)
        self.assertIsNone(right.gap)

    def test_a_gap_in_the_middle_parts_the_line(self) -> None:
        losses: list[float | str] = [4.0, 3.0, "nan", *[2.0] * 7]
        bug = drawn({"trigger": losses, "control": [1.0] * 10}).lines[0]
        self.assertEqual([len(one.split()) for one in bug.strokes], [2, 7])
        self.assertIsNone(bug.gap)

    def test_heights_are_those_of_the_numbers(self) -> None:
        for scale, values in (("linear", range(10)), ("log", map(math.exp, range(10)))):
            with self.subTest(scale):
                rising: list[float | str] = [float(one) for one in values]
                line = drawn({"trigger": rising, "control": rising}, scale).lines[0]
                heights = [float(one.split(",")[1]) for one in line.strokes[0].split()]
                self.assertEqual((heights[0], heights[-1]), (FOOT, TOP))
                gaps = [a - b for a, b in pairwise(heights)]
                self.assertLess(max(gaps) - min(gaps), 0.2)

    def test_a_record_without_one_has_no_picture(self) -> None:
        self.assertIsNone(curve_of(Record(), ()))

    def test_its_run_is_linked_where_the_site_has_it(self) -> None:
        steps = {side: [1.0, 0.5] for side in SIDES}
        record = Record(curve={"steps": steps, "scale": "linear", "digest": RUN})
        for kept, linked in ((RUN, RUN), ("sha256:1", "")):
            curve = curve_of(record, [Finding(evidence=kept)])
            assert curve
            self.assertEqual(curve.evidence, linked)
