"""A root cause of which the beginning is open: whole blocks, else whole sentences."""

from __future__ import annotations

from django.test import SimpleTestCase

from kb.pages.prose import parted
from kb.templatetags.kb import cited


class PartedTest(SimpleTestCase):
    def test_whole_blocks_as_far_as_they_fit(self) -> None:
        one, two = "<p>Only <code>a b</code> here.</p>\n", "<ul><li>x</li></ul>"
        self.assertEqual(parted(one + two, 5), (one + two, ""))
        self.assertEqual(parted(one + two, 4), (one, two))

    def test_a_long_paragraph_ends_with_a_sentence(self) -> None:
        html = "<p>One two <b>three</b>. Four <i>five. Six</i>. Seven eight.</p>"
        shown, rest = parted(html, 6)
        self.assertEqual(shown, "<p>One two <b>three</b>.</p>")
        self.assertEqual(rest, "<p>Four <i>five. Six</i>. Seven eight.</p>")

    def test_two_characters_of_chinese_are_a_word(self) -> None:
        html = "<p>零除以零。再乘以零。</p>"
        self.assertEqual(parted(html, 5), (html, ""))
        self.assertEqual(parted(html, 3)[0], "<p>零除以零。</p>")

    def test_what_cannot_be_parted_stays_whole(self) -> None:
        for html in ("<p>One two three</p>", "<pre>a. B\nc. D</pre>", ""):
            self.assertEqual(parted(html, 1), (html, ""))


class CitedTest(SimpleTestCase):
    def test_a_narrow_column_parts_no_date(self) -> None:
        shown = cited({"kind": "discussion", "date": "2026-08-28"})
        self.assertEqual(shown, 'discussion, <span class="nowrap">2026-08-28</span>')
