"""Edits on the site: which language falls behind, what a revision changed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from django.test import SimpleTestCase, TestCase
from django.utils import translation

from kb.admin import preview
from kb.choices import LANGS, SECTIONS, Significance
from kb.models import Record
from kb.publishing import editing, revisions
from kb.publishing.rows import apply, record_to_file, stored_facts
from kb.records import rendering
from kb.records.files import RecordError, read_record
from tests.support import runs
from tests.support.sample_record import edit, write_sample

SMALL, MEDIUM, LARGE = Significance


class OutdatedTest(SimpleTestCase):
    def after(self, before: Any, edited: str, size: Significance) -> dict[str, Any]:
        return editing.outdated(before, edited.split(), size, revision=9)

    def test_an_edit_of_one_language_leaves_the_other_behind(self) -> None:
        for size in (MEDIUM, LARGE):
            entry = {"has": 8, "wants": 9, "significance": size.value}
            self.assertEqual(self.after({}, "en", size), {"zh": entry})
            self.assertEqual(self.after({}, "zh", size), {"en": entry})

    def test_wording_leaves_everything_as_it_is(self) -> None:
        before = {"zh": {"has": 3, "wants": 4, "significance": "large"}}
        for edited in ("", "en", "zh", "en zh"):
            self.assertEqual(self.after(before, edited, SMALL), before)
            self.assertEqual(self.after({}, edited, SMALL), {})

    def test_a_language_stays_behind_from_where_it_fell(self) -> None:
        before = {"zh": {"has": 3, "wants": 4, "significance": "large"}}
        entry = {"has": 3, "wants": 9, "significance": "large"}
        self.assertEqual(self.after(before, "en", MEDIUM), {"zh": entry})

    def test_what_catches_up_is_in_step(self) -> None:
        before = {"zh": {"has": 3, "wants": 4, "significance": "medium"}}
        for edited in ("zh", "en zh"):
            self.assertEqual(self.after(before, edited, MEDIUM), {})

    def test_facts_have_no_language(self) -> None:
        before = {"zh": {"has": 3, "wants": 4, "significance": "medium"}}
        self.assertEqual(self.after(before, "", LARGE), before)


class SaveTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        runs.load_sample()

    def setUp(self) -> None:
        self.record = Record.objects.get()

    def test_a_revision_keeps_its_significance(self) -> None:
        self.record.fix_en = "Another fix."
        self.assertTrue(editing.save_edited(self.record, LARGE))
        stored = Record.objects.get()
        entry = {"has": 1, "wants": 2, "significance": "large"}
        self.assertEqual(stored.outdated, {"zh": entry})
        kept = stored.history.first()
        self.assertEqual((kept.significance, kept.outdated), ("large", {"zh": entry}))
        self.assertEqual(stored.history.last().outdated, {})

    def test_saying_that_both_say_the_same_is_a_revision(self) -> None:
        self.record.fix_en = "Another fix."
        editing.save_edited(self.record)
        self.assertFalse(editing.save_edited(Record.objects.get()))
        self.assertTrue(editing.save_edited(Record.objects.get(), in_step=True))
        self.assertEqual(Record.objects.get().outdated, {})
        self.assertFalse(editing.save_edited(Record.objects.get(), in_step=True))

    def test_an_old_revision_comes_back_as_the_newest(self) -> None:
        self.record.fix_en = "Another fix."
        editing.save_edited(self.record)
        Record.objects.update(files_digest="sha256:loaded", content_digest="sha256:c")
        old = Record.objects.get().history.last().instance
        self.assertTrue(editing.save_edited(old, SMALL))
        stored = Record.objects.get()
        self.assertEqual((stored.revision, stored.fix_en), (3, "A root fix."))
        # Of the last load or dump, which an edit does not move.
        self.assertEqual(stored.files_digest, "sha256:loaded")
        self.assertEqual(stored.content_digest, "sha256:c")

    def test_files_bring_both_languages_into_step(self) -> None:
        self.record.fix_en = "Another fix."
        editing.save_edited(self.record)
        changed = record_to_file(Record.objects.get())
        row = Record.objects.prefetch_related("claims", "repros").get()
        apply(changed, stored_facts(row), row, row.html)
        stored = Record.objects.get()
        self.assertEqual((stored.outdated, stored.significance), ({}, ""))


class RefusalTest(SimpleTestCase):
    """What a folder or a text may not hold is said in the language that is active."""

    def refusals(self, code: str) -> str:
        with tempfile.TemporaryDirectory() as root, translation.override(code):
            folder = write_sample(Path(root))
            edit(folder / "issue.toml", 'upstream = "open"', 'upstream = "odd"')
            edit(folder / "article.zh.md", "## 根因", "## 原因")
            (folder / "notes.txt").write_text("?")
            with self.assertRaises(RecordError) as caught:
                read_record(folder)
        return str(caught.exception)

    def test_a_folder_is_refused_in_both_languages(self) -> None:
        english, chinese = self.refusals("en"), self.refusals("zh-hans")
        self.assertIn("notes.txt: does not belong in a record", english)
        self.assertIn("issue.toml: upstream: must be one of open, ", english)
        self.assertNotRegex(english.replace("## 原因", ""), r"[，。：]")
        self.assertIn("notes.txt: 不属于记录的文件", chinese)
        self.assertIn("issue.toml: upstream: 必须是 open, ", chinese)
        self.assertIn("未知标题“## 原因”", chinese)


class WordDiffTest(SimpleTestCase):
    def marked(self, old: str, new: str) -> str:
        signs = {"same": "{}", "added": "[+{}]", "removed": "[-{}]"}
        return "".join(
            f"<{piece.lines}>"
            if piece.kind == "skipped"
            else signs[piece.kind].format(piece.text)
            for piece in revisions.diff(old, new)
        )

    def test_words_and_han_characters(self) -> None:
        for old, new, wanted in [
            ("set it to False.", "set it to True.", "set it to [-False][+True]."),
            ("梯度丢失。", "梯度为零。", "梯度[-丢失][+为零]。"),
            ("", "new", "[+new]"),
            ("old", "", "[-old]"),
            ("same", "same", "same"),
        ]:
            self.assertEqual(self.marked(old, new), wanted)

    def test_long_stretches_that_stayed_are_folded(self) -> None:
        lines = [f"line {number}\n" for number in range(20)]
        new = [*lines[:10], "between\n", *lines[10:]]
        wanted = "<8>line 8\nline 9\n[+between\n]line 10\nline 11\n<8>"
        self.assertEqual(self.marked("".join(lines), "".join(new)), wanted)

    def test_nothing_is_lost(self) -> None:
        old, new = "a b\nc d\n中文 e\n" * 40, "a b\nc x\n中国 e\n" * 40
        pieces = revisions.word_diff(old, new)
        before = "".join(piece.text for piece in pieces if piece.kind != "added")
        after = "".join(piece.text for piece in pieces if piece.kind != "removed")
        self.assertEqual((before, after), (old, new))

    def test_whole_texts_where_words_would_take_too_long(self) -> None:
        old, new = "字" * 4000, "词" * 4000
        kinds = [piece.kind for piece in revisions.diff(old, new)]
        self.assertEqual(kinds, ["removed", "added"])


class PreviewTest(SimpleTestCase):
    def test_a_section_in_both_languages(self) -> None:
        form = {"section": "fix_en", "fix_en": "*now*\r\n", "fix_zh": "**现在**"}
        ((english, chinese),) = preview.build(form)
        self.assertEqual(english.html, "<p><em>now</em></p>")
        self.assertEqual(chinese.html, "<p><strong>现在</strong></p>")
        self.assertEqual((chinese.title, chinese.tag), ("修复", "zh-Hans"))
        self.assertEqual(english.problems + chinese.problems, [])

    def test_what_cannot_be_rendered_says_so_and_spares_the_rest(self) -> None:
        form = {"section": "fix_en", "fix_en": "x" * 65_537, "fix_zh": "好"}
        ((english, chinese),) = preview.build(form)
        self.assertEqual((english.html, chinese.html), ("", "<p>好</p>"))
        self.assertIn("is longer than 64 KiB", english.problems)

    def test_texts_that_take_too_long_cost_a_bounded_time(self) -> None:
        form = {f"{name}_{lang}": "[" * 30_000 for name in SECTIONS for lang in LANGS}
        form["symptom_en"] = "*short*"
        with mock.patch.object(
            rendering, "run_child", wraps=rendering.run_child
        ) as run:
            parts = [part for section in preview.build(form) for part in section]
        self.assertEqual(parts[0].html, "<p><em>short</em></p>")
        said = [part.problems[-1] for part in parts[1:]]
        self.assertEqual(said[:2], [str(rendering.TOO_SLOW)] * 2)
        left_out = "is not shown, because texts before it take too long"
        self.assertEqual(set(said[2:]), {left_out})
        # Nothing is rendered twice, and only so many are waited for.
        self.assertEqual([call.args[1] for call in run.call_args_list], [1.0] * 2)

    def test_every_section_without_a_name(self) -> None:
        sections = preview.build({"symptom_en": "<b>x</b>"})
        self.assertEqual(len(sections), 5)
        self.assertEqual(sections[0][0].html, "<p>&lt;b&gt;x&lt;/b&gt;</p>")
        self.assertTrue(any("raw HTML" in text for text in sections[0][0].problems))
