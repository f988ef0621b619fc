"""The picture of a sweep: every cell once, in bands that are no wider than a phone."""

from __future__ import annotations

from typing import Any

from django.test import SimpleTestCase

from runner.pages.sweeps import picture

# Of a page at 360 px, without its margins.
PHONE_PX = 328


def cells(**axes: list[Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{}]
    for name, values in axes.items():
        found = [{**at, name: value} for at in found for value in values]
    counts = {"verdict": "bug_present", "hits": 1, "trials": 1, "reason": ""}
    return [{"at": at, **counts} for at in found]


class PictureTest(SimpleTestCase):
    def test_many_columns_go_on_below(self) -> None:
        given = cells(length=list(range(64, 8193, 64)), dtype=["bfloat16", "float16"])
        drawn = picture.draw("length", "dtype", given)
        self.assertLessEqual(drawn.width, PHONE_PX)
        corners = {(square.x, square.y) for square in drawn.squares}
        self.assertEqual(len(corners), 256)
        self.assertLess(max(y for _x, y in corners), drawn.height)
        # 128 columns are eleven bands, of two rows each.
        self.assertEqual([label.text for label in drawn.rows].count("float16"), 11)

    def test_bands_are_as_long_as_each_other(self) -> None:
        for columns, width in ((1, 1), (12, 12), (13, 7), (16, 8), (25, 9)):
            self.assertEqual(picture.band_columns(columns), width)

    def test_the_values_of_one_parameter_stand_over_its_squares(self) -> None:
        drawn = picture.draw("size", "", cells(size=[4, 1, 2]))
        self.assertEqual([label.text for label in drawn.columns], ["1", "2", "4"])
        self.assertEqual(drawn.rows, [])
        self.assertEqual({square.y for square in drawn.squares}, {picture.SIDE})

    def test_values_of_two_digits_stand_over_each_square(self) -> None:
        drawn = picture.draw("size", "", cells(size=[1, 2, 12]))
        self.assertEqual([label.text for label in drawn.columns], ["1", "2", "12"])

    def test_no_head_is_cut(self) -> None:
        drawn = picture.draw("eps", "", cells(eps=[0.00048828125]))
        (head,) = drawn.columns
        half = len(head.text) * picture.TEXT_PX // 2
        self.assertGreaterEqual(head.x - half, 0)
        self.assertLessEqual(head.x + half, drawn.width)
