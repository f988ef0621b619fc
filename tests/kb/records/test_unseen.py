"""Characters that nobody sees, by Unicode's own categories in every plane."""

from __future__ import annotations

import sys
import unicodedata

from django.test import SimpleTestCase

from portable.harness.values import INVISIBLE

HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
KEPT = "\t\n"


class UnseenTest(SimpleTestCase):
    def test_every_character_of_these_categories_is_one(self) -> None:
        every = map(chr, range(sys.maxunicode + 1))
        hidden = [one for one in every if unicodedata.category(one) in HIDDEN]
        missed = [one for one in hidden if one not in KEPT and not INVISIBLE.match(one)]
        self.assertEqual(missed, [])

    def test_what_is_seen_is_none(self) -> None:
        every = map(chr, range(sys.maxunicode + 1))
        seen = [
            f"U+{ord(one):04X}"
            for one in every
            if unicodedata.category(one)[0] in "LNPS" and INVISIBLE.match(one)
        ]
        # Letters that are drawn as nothing.
        self.assertEqual(seen, ["U+115F", "U+1160", "U+3164", "U+FFA0"])
        self.assertIsNone(INVISIBLE.search("损失为 nan 🤗 Größe テスト 한글 ≤ é\t\n"))
