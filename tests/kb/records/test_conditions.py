"""Conditions on parameters: read, shown, held against values."""

from __future__ import annotations

from django.test import SimpleTestCase

from kb.records import conditions, facts

AT = {"length": 192, "dtype": "bfloat16", "scale": 0.05}


class ConditionTest(SimpleTestCase):
    def test_what_is_read_is_shown_and_holds(self) -> None:
        for text, (shown, wanted) in {
            "length % 128 = 64": ("length % 128 = 64", True),
            "length >= 193": ("length ≥ 193", False),
            "dtype in float16, bfloat16": ("dtype ∈ {float16, bfloat16}", True),
            "dtype != bfloat16": ("dtype ≠ bfloat16", False),
            "scale < 0.1": ("scale < 0.1", True),
            "scale > 1e-3": ("scale > 0.001", True),
            "length % 64 in 1,2": ("length % 64 ∈ {1, 2}", False),
        }.items():
            with self.subTest(text):
                (term,) = conditions.parse(text)
                self.assertEqual(str(term), shown)
                self.assertEqual(term.holds(AT), wanted)
        both = conditions.parse("length <= 192 and dtype = bfloat16")
        self.assertTrue(conditions.holds(both, AT))
        self.assertFalse(conditions.holds(both, AT | {"length": 193}))

    def test_what_is_none_is_refused(self) -> None:
        for text in (
            *(
                "",
                "length",
                "length = ",
                "length == 64",
                "64 = length",
                "a = 1 or b = 2",
            ),
            *("length % 0 = 1", "dtype > float16", "length % 8 = many", "a = 1, 2"),
            *("dtype in bfloat16", "__import__('os') = 1", "length = 1 and "),
        ):
            with self.subTest(text), self.assertRaises(conditions.ConditionError):
                conditions.parse(text)

    def test_a_record_with_a_wrong_one_is_refused(self) -> None:
        keys = {key.name: key for key in facts.TABLES["precondition"]}
        self.assertEqual(list(keys["where"].check("size = 1")), [])
        for wrong in ("size is one", 3, None):
            self.assertEqual(len(list(keys["where"].check(wrong))), 1)
