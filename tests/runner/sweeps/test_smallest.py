"""The smallest parameters that still show a bug: by a rule, and by running."""

from __future__ import annotations

import tempfile
from io import StringIO
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.test import SimpleTestCase, TestCase

from runner.sweeps.smallest import smallest
from tests.support import parametrized, runs

DECLARED = {
    "dtype": {"choices": ["float16", "float32"], "default": "float32"},
    "rows": {"min": 1, "max": 64, "default": 40},
    "length": {"min": 1, "max": 4096, "default": 704},
    "scale": {"min": 0.0, "max": 10.0, "default": 1.0},
}


class RuleTest(SimpleTestCase):
    def test_each_parameter_as_far_as_the_bug_goes_with_it(self) -> None:
        asked: list[dict[str, Any]] = []

        def shows(values: dict[str, Any]) -> bool:
            asked.append(values)
            return values["rows"] * values["length"] >= 704 and values["rows"] >= 3

        found = smallest(DECLARED, shows)
        self.assertEqual(found["dtype"], "float32")
        self.assertEqual(found["scale"], 0.0)
        self.assertTrue(shows(found))
        for name in ("rows", "length"):
            self.assertFalse(shows({**found, name: found[name] - 1}), name)
        self.assertLess(len(asked), 60)

    def test_what_is_small_already_stays(self) -> None:
        found = smallest(DECLARED, lambda values: values["length"] >= 704)
        self.assertEqual((found["length"], found["rows"]), (704, 1))


class CommandTest(TestCase):
    """With real processes, under a stand-in for torch."""

    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        runs.install(runs.stand_in_torch(folder))
        self.repro = parametrized.make_repro()

    def sweep(self, *arguments: str) -> tuple[int, str]:
        out, err = StringIO(), StringIO()
        with self.assertRaises(SystemExit) as end:
            call_command(
                "sweep", self.repro.record_id, *arguments, stdout=out, stderr=err
            )
        return int(str(end.exception.code)), out.getvalue() + err.getvalue()

    def test_it_says_how_to_run_what_it_found(self) -> None:
        status, said = self.sweep("--minimise")
        self.assertEqual(status, 1, said)
        self.assertIn("length = 1, scale = 0", said)
        self.assertIn("找到的仍有此缺陷的最小取值", said)
        self.assertIn("run_repro NAN-9001 --repro repro --set length=1 --set", said)
        self.assertIn("dtype=float32 length=6 scale=1", said)

    def test_nothing_is_made_smaller_where_the_bug_is_not(self) -> None:
        text = self.repro.source.replace('DTYPE != "float16"', "False")
        type(self.repro).objects.filter(pk=self.repro.pk).update(source=text)
        status, said = self.sweep("--minimise")
        self.assertEqual(status, 0, said)
        self.assertIn("does not show at the reviewed values", said)

    def test_it_takes_no_values(self) -> None:
        status, said = self.sweep("length=6", "--minimise")
        self.assertEqual(status, 2)
        self.assertIn("--minimise takes", said)
