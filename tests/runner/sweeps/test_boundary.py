"""The simplest rule that explains every cell, or none; checked against all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from django.test import SimpleTestCase

from kb.records import conditions
from runner.sweeps import boundary, sentences
from runner.sweeps.boundary import Boundary, boundary_of

LENGTHS = range(64, 4097, 64)


def swept(
    bug: Callable[..., bool], **axes: Sequence[Any]
) -> tuple[list[dict[str, Any]], Boundary]:
    cells = [
        {
            "at": (at := dict(zip(axes, values, strict=True))),
            "verdict": "bug_present" if bug(**at) else "bug_absent",
        }
        for values in product(*axes.values())
    ]
    return cells, boundary_of(cells)


BY_DTYPE = "dtype = bf16 and length ≤ 2, or where dtype = f16 and length ≤ 5"


def by_dtype(length: int, dtype: str) -> bool:
    return length <= {"f32": 0, "bf16": 2, "f16": 5}[dtype]


class RuleTest(SimpleTestCase):
    def assert_rule(
        self, text: str, bug: Callable[..., bool], **axes: Sequence[Any]
    ) -> None:
        cells, found = swept(bug, **axes)
        self.assertEqual(sentences.rule(found.rule, "en"), text)
        for cell in cells:
            self.assertEqual(any_holds(found, cell["at"]), bug(**cell["at"]))

    def test_one_parameter(self) -> None:
        for text, bug in {
            "length % 128 = 64": lambda length: length % 128 == 64,
            "length ≥ 704": lambda length: length > 700,
            "length ≤ 640": lambda length: length < 700,
            "length = 704": lambda length: length == 704,
            "length ≠ 704": lambda length: length != 704,
            "length ≥ 704 and length ≤ 960": lambda length: 700 < length < 1000,
        }.items():
            with self.subTest(text):
                self.assert_rule(text, bug, length=LENGTHS)

    def test_of_ranges_only_that_of_the_bug_is_tried(self) -> None:
        places = [{"length": length} for length in range(1000)]
        seen = [{"length": 10}, {"length": 500}, {"length": 20}]
        tried = list(boundary.conditions_on("length", places, seen))
        self.assertEqual(
            [sentences.rule((one,), "en") for one in tried if len(one) == 2],
            ["length ≥ 10 and length ≤ 500"],
        )

    def test_two_parameters(self) -> None:
        grid = {"length": range(1, 9), "dtype": ["f32", "bf16", "f16"]}
        for text, bug in {
            "dtype = bf16": lambda length, dtype: dtype == "bf16",
            "dtype ≠ f32": lambda length, dtype: dtype != "f32",
            "length ≥ 5 and dtype = f16": lambda length, dtype: (
                length > 4 and dtype == "f16"
            ),
            BY_DTYPE: by_dtype,
        }.items():
            with self.subTest(text):
                self.assert_rule(text, bug, **grid)

    def test_chance_has_no_rule(self) -> None:
        hits = {3, 4, 7, 12, 13, 19, 20, 25, 31}
        _cells, found = swept(lambda size: size in hits, size=range(1, 33))
        self.assertEqual(found.rule, ())
        self.assertEqual(
            sentences.sentence(found, "en"),
            "It happens in 9 of 32 cells, and no simple rule explains which.",
        )

    def test_one_cell_is_no_plural(self) -> None:
        _cells, found = swept(lambda length: length == 128, length=LENGTHS)
        self.assertEqual(
            sentences.sentence(found, "en"),
            "It happens in the one cell where length = 128, "
            "and in none of the other 63.",
        )

    def test_the_issues_own_sentence(self) -> None:
        _cells, found = swept(lambda length: length % 256 == 64, length=LENGTHS)
        self.assertEqual(
            sentences.sentence(found, "en"),
            "It happens in all 16 cells where length % 256 = 64, and in none of the "
            "other 48.",
        )
        self.assertEqual(
            sentences.sentence(found, "zh"),
            "满足 length % 256 = 64 的 16 格全部有此缺陷；其余 48 格均未见。",
        )

    def test_cells_without_a_verdict_count_apart(self) -> None:
        cells, _ = swept(lambda size: size > 2, size=range(1, 7))
        cells[0]["verdict"], cells[5]["verdict"] = "not_applicable", "error"
        found = boundary_of(cells)
        self.assertEqual(
            sentences.sentence(found, "en"),
            "It happens in all 3 cells where size ≥ 3, and in none of the other 1. "
            "Cells where it cannot apply: 1. Cells without a verdict: 1.",
        )

    def test_ends(self) -> None:
        for bug, text in (
            (True, "in all cells: 3 of 3"),
            (False, "in no cell: 0 of 3"),
        ):
            _cells, found = swept(lambda size, bug=bug: bug, size=[1, 2, 3])
            self.assertIn(text, sentences.sentence(found, "en"))
        self.assertEqual(
            sentences.sentence(boundary_of([]), "en"), "No cell has a verdict."
        )


def any_holds(found: Boundary, at: Mapping[str, Any]) -> bool:
    return any(conditions.holds(part, at) for part in found.rule)
