"""[[rule]] tables: what the loader says of each that is wrong."""

from __future__ import annotations

from typing import Any

from django.test import SimpleTestCase
from django.utils import translation

from kb.records import rules

STEP: dict[str, Any] = {"event": ["torch.where"]}


class StepsTest(SimpleTestCase):
    def problems(self, *steps: Any) -> list[str]:
        with translation.override("en"):
            return [f"{path}: {text}" for path, text in rules.steps(list(steps))]

    def test_what_is_sound(self) -> None:
        full = {
            "event": ["torch.where", ".log", "[for]", "=.weight", "+", "*()"],
            "with": {
                "input@0": {"dtype": ["float16"], "same": "x"},
                "value@1|other@2": [{"given": False}, {"is": True}, {"below": -1e9}],
                "self": {"from": ["torch.sqrt"], "of": {"@0": {"same": "x"}}},
            },
            "inside": [{"event": ["torch.autocast"]}],
            "outside": ["torch.no_grad"],
            "unguarded": ["training"],
        }
        self.assertEqual(self.problems(full, {**STEP, "without": [".c"]}), [])

    def test_what_is_not(self) -> None:
        for step, text in (
            ({}, "[0].event: is missing"),
            ({"event": []}, "[0].event: must not be empty"),
            ({"event": ["a b"]}, "[0].event[0]: must look like 'torch.where'"),
            ({**STEP, "calls": []}, "[0].calls: unknown key; known are event, with"),
            ({**STEP, "with": {}}, "[0].with: must be a table of arguments"),
            ({**STEP, "with": {"@x": {"is": 1}}}, "[0].with.@x: must look like"),
            ({**STEP, "with": {"a||b": {"is": 1}}}, "[0].with.a||b: must look like"),
            ({**STEP, "with": {"x": {}}}, "[0].with.x: must not be empty"),
            ({**STEP, "with": {"x": {"has": 1}}}, "[0].with.x.has: unknown key"),
            (
                {**STEP, "with": {"x": {"above": "1"}}},
                "[0].with.x.above: must be a num",
            ),
            ({**STEP, "with": {"x": {"given": 1}}}, "[0].with.x.given: must be true"),
            (
                {**STEP, "with": {"x": [{"is": 1}, {"dtype": ["half"]}]}},
                "[0].with.x[1].dtype[0]: must be one of bfloat16, float16",
            ),
            (
                {**STEP, "with": {"x": {"of": {"@0": {"is": 1}}}}},
                "[0].with.x.of: belongs to made_by or from",
            ),
            (
                {**STEP, "with": {"x": {"made_by": ["a"], "from": ["b"]}}},
                "[0].with.x: has both made_by and from",
            ),
            ({**STEP, "without": [".c"]}, "[0].without: only a later step can have it"),
        ):
            with self.subTest(text):
                found = self.problems(step)
                self.assertTrue(any(line.startswith(text) for line in found), found)
        self.assertEqual(
            self.problems(*[STEP] * 5), [": has 5 entries; the limit is 4"]
        )
