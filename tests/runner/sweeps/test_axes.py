"""Which cells a sweep has, and what is refused by name."""

from __future__ import annotations

from typing import Any

from django.test import SimpleTestCase

from portable import harness
from runner.sweeps import axes, cells
from runner.sweeps.cells import Axis, key_of, next_cell
from tests.runner.harness.test_parameters import HOSTILE
from tests.support import parametrized


class AxesTest(SimpleTestCase):
    def setUp(self) -> None:
        self.header = parametrized.header()

    def read(self, **texts: str) -> dict[str, Axis]:
        return axes.read_axes(self.header, texts)

    def cells(self, wanted: dict[str, Axis], bug: Any) -> list[tuple[Any, ...]]:
        """All cells in their order, where `bug` says what each shows."""
        done: dict[tuple[Any, ...], str] = {}
        while at := next_cell(wanted, done):
            key = key_of(wanted, at)
            self.assertNotIn(key, done)
            done[key] = "bug_present" if bug(**at) else "bug_absent"
        return list(done)


class ReadingTest(AxesTest):
    def test_values_steps_factors_and_choices(self) -> None:
        for text, values in {
            "64,128": [64, 128],
            "64:1024:320": [64, 384, 704, 1024],
            "64:1000:320": [64, 384, 704],
            "1:1024:x4": [1, 4, 16, 64, 256, 1024],
            "3:5": [3, 4, 5],
        }.items():
            with self.subTest(text):
                self.assertEqual(self.read(length=text), {"length": {"values": values}})
        self.assertEqual(
            self.read(dtype="*")["dtype"]["values"], ["float32", "bfloat16", "float16"]
        )
        self.assertEqual(
            self.read(scale="0:0.3:0.1")["scale"]["values"], [0.0, 0.1, 0.2, 0.3]
        )

    def test_hostile_values_are_refused_with_the_name(self) -> None:
        for text in (
            *("many", "nan", "1e400", "-1", "1000000000", "", "1,", "2:nan", "1:10^9"),
            *(
                "1:1e400:1",
                "1:1000000000:1",
                "-5:5:1",
                "1..1000000000",
                "5..1",
                "5:1:1",
            ),
            *(
                "1:9:0",
                "1:9:-1",
                "1:9:x1",
                "1:9:nan",
                "1:9:1e400",
                "1:2:3:4",
                "1..2..3",
            ),
        ):
            with (
                self.subTest(text),
                self.assertRaises(harness.ParameterError) as caught,
            ):
                self.read(length=text)
            self.assertEqual(
                [name for name, *_ in caught.exception.problems], ["length"]
            )
        for text in ("float8", "*,", "float32:float16:1", "float32..float16"):
            with (
                self.subTest(text),
                self.assertRaises(harness.ParameterError) as caught,
            ):
                self.read(dtype=text)
            self.assertEqual(caught.exception.problems[0][0], "dtype")

    def test_hostile_axes_of_no_text_are_refused_too(self) -> None:
        for what, value in HOSTILE.items():
            with self.subTest(what), self.assertRaises(harness.ParameterError):
                axes.checked(self.header, {"length": {"values": [value]}})
        for axis in ({}, {"values": []}, {"values": 3}, {"between": [1, 2, 3]}):
            with self.subTest(axis), self.assertRaises(harness.ParameterError):
                axes.checked(self.header, {"length": axis})
        with self.assertRaises(harness.ParameterError):
            axes.checked(self.header, {"length": {"values": [4, 4]}})

    def test_a_thousand_cells_are_refused(self) -> None:
        for texts in (
            {"length": "1:1000:1"},
            {"length": "1:100:1", "dtype": "*"},
            {"scale": "0:1:1e-300"},
        ):
            with self.subTest(texts), self.assertRaises(axes.BadAxes) as caught:
                self.read(**texts)
            self.assertIn("at most 256", str(caught.exception))
        for none in ({}, {"length": "1,2", "scale": "1,2", "dtype": "*"}):
            with self.assertRaisesRegex(axes.BadAxes, "one or two parameters"):
                axes.read_axes(self.header, none)

    def test_what_exceeds_the_bound_is_refused_before_it_runs(self) -> None:
        with self.assertRaises(harness.ParameterError) as caught:
            self.read(length="1000,2000")
        self.assertEqual(caught.exception.problems[0][:2], ("length", "memory_mib"))


class OrderTest(AxesTest):
    def test_a_grid_has_each_cell_once(self) -> None:
        wanted = self.read(length="1:4:1", dtype="*")
        found = self.cells(wanted, lambda length, dtype: False)
        self.assertEqual(len(found), 12)
        self.assertEqual(found[:2], [(1, "float32"), (1, "bfloat16")])

    def test_a_boundary_is_halved_down_to_neighbours(self) -> None:
        found = self.cells(self.read(length="1..1024"), lambda length: length >= 705)
        self.assertLess(len(found), 15)
        self.assertTrue({(704,), (705,)} <= set(found))

    def test_each_dtype_has_its_own_boundary(self) -> None:
        wanted = self.read(dtype="float32,float16", length="1..1024")
        found = self.cells(
            wanted, lambda length, dtype: length >= (9 if dtype == "float16" else 99)
        )
        for pair in (("float16", 8), ("float16", 9), ("float32", 98), ("float32", 99)):
            self.assertIn(pair, found)

    def test_of_two_ranges_one_is_walked_at_the_ends_of_the_other(self) -> None:
        wanted = self.read(length="1..1024", scale="0..10")
        found = self.cells(wanted, lambda length, scale: length * scale > 5000)
        self.assertLess(len(found), cells.most_cells(wanted))
        self.assertEqual({scale for _length, scale in found}, {0, 10})

    def test_no_boundary_between_equal_ends_is_looked_for(self) -> None:
        found = self.cells(self.read(length="1..1024"), lambda length: True)
        self.assertEqual(found, [(1,), (1024,)])

    def test_a_fraction_ends_too(self) -> None:
        found = self.cells(self.read(scale="0..10"), lambda scale: scale > 3.3333333)
        self.assertLess(len(found), 24)
        below = max(at for (at,) in found if at <= 3.3333333)
        above = min(at for (at,) in found if at > 3.3333333)
        self.assertLess(above - below, 0.005)
