"""Whether the words of a message stand together in a line, or strewn over it."""

from __future__ import annotations

from unittest import TestCase

from kb.search.ranking.log_lines import is_scattered, shortest_run, words

SHORT = "NotImplementedError: matmul: operation is not supported"
LONG = (
    "matmul: trying to do `A=cuda:5 @ B=924.429 + C`, with A.dtype=B.dtype=6873 and "
    "C.dtype=234. This operation is only supported when all have the same data type."
)


class ClosenessTest(TestCase):
    def test_a_short_message_strewn_over_a_long_one(self) -> None:
        self.assertTrue(is_scattered(LONG, SHORT))
        self.assertFalse(is_scattered(f"{LONG} {SHORT}", SHORT))

    def test_a_value_may_be_longer_than_the_one_that_was_known(self) -> None:
        known = "expected weight to be on cuda:0, got x on cpu"
        long = (
            "expected model.layers.3.mlp.weight to be on cuda:0, got net.x.bias on cpu"
        )
        self.assertFalse(is_scattered(long, known))

    def test_a_part_of_a_message_is_together(self) -> None:
        self.assertFalse(is_scattered("matmul: operation is", SHORT))
        self.assertFalse(is_scattered("", SHORT))
        self.assertFalse(is_scattered(SHORT, ""))

    def test_the_shortest_run_holds_every_shared_word(self) -> None:
        line = words("aa xx bb aa cc bb")
        self.assertEqual(shortest_run(line, {"aa", "bb", "cc"}), 3)
        self.assertEqual(shortest_run(line, {"xx", "cc"}), 4)
        self.assertEqual(shortest_run(line, {"zz"}), 0)
