"""What a process keeps: bounded, and what was asked for last stays."""

from __future__ import annotations

from django.test import SimpleTestCase

from kb.search.index.memory import keep, recall


class MemoryTest(SimpleTestCase):
    def test_what_was_not_asked_for_longest_goes(self) -> None:
        kept: dict[str, int] = {}
        keep(kept, {"a": 1, "b": 2, "c": 3}, most=3)
        self.assertEqual(recall(kept, ["a", "x"]), {"a": 1})
        keep(kept, {"d": 4}, most=3)
        self.assertEqual(set(kept), {"a", "c", "d"})

    def test_the_order_is_that_of_the_keys(self) -> None:
        kept = {"a": 1, "b": 2, "c": 3}
        self.assertEqual(list(recall(kept, ["c", "a", "b"])), ["c", "a", "b"])

    def test_more_than_fits_leaves_as_much_as_fits(self) -> None:
        kept: dict[int, int] = {}
        keep(kept, dict.fromkeys(range(10), 0), most=4)
        self.assertEqual(list(kept), [6, 7, 8, 9])
