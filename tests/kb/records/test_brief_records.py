"""Brief records: three paragraphs, sources, and a run only where there is a repro."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

from django.core.management import CommandError, call_command
from django.test import TestCase

from kb.models import Record
from tests.support.brief_record import FILES, write_brief
from tests.support.sample_record import edit, write_sample

UNRUN = "Documented only: this site has no repro for it."


class BriefRecordTest(TestCase):
    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder = write_brief(self.root)

    def load(self) -> None:
        call_command("load_records", str(self.root), verbosity=0, stdout=io.StringIO())

    def refused(self, name: str, old: str, new: str) -> str:
        edit(self.folder / name, old, new)
        with self.assertRaises(CommandError) as caught:
            self.load()
        self.assertFalse(Record.objects.exists())
        return str(caught.exception)

    def test_pages_and_api_say_that_it_is_brief_and_not_run(self) -> None:
        self.load()
        page = self.client.get("/en/NAN-9002/brief-sample/")
        self.assertContains(page, UNRUN)
        for title in ("What it is", "How to tell", "Do now"):
            self.assertContains(page, title)
        for absent in ("Root cause", "Run repro", "No workaround is known"):
            self.assertNotContains(page, absent)
        chinese = self.client.get("/zh/NAN-9002/brief-sample/")
        self.assertContains(chinese, "加上 eps。")
        text = self.client.get("/en/NAN-9002.md").content.decode()
        self.assertIn(f"{UNRUN}\n\n## What it is\n\nIt divides by zero.", text)
        self.assertIn("## What to do\n\nAdd an eps.", text)
        self.assertContains(self.client.get("/en/records/"), "· brief")
        self.assertContains(self.client.get("/en/search/?q=brief+sample"), "· brief")
        shown = self.client.get("/api/v1/records/NAN-9002").json()
        self.assertEqual(shown["depth"], "brief")
        self.assertEqual(shown["what_to_do"]["markdown"]["en"], "Add an eps.")
        listed = self.client.get("/api/v1/records").json()["items"]
        self.assertEqual([row["depth"] for row in listed], ["brief"])

    def test_a_full_record_keeps_its_five_sections(self) -> None:
        write_sample(self.root)
        self.load()
        page = self.client.get("/en/NAN-9001/sample/")
        self.assertContains(page, "Root cause")
        self.assertNotContains(page, UNRUN)

    def test_what_is_wrong_is_named_with_file_and_line(self) -> None:
        for name, old, new, said in (
            (
                *("article.en.md", "It divides by zero.", "One.\n\nTwo."),
                "brief-sample/article.en.md:1: root_cause: is one paragraph",
            ),
            (
                *("article.zh.md", "## 怎么办", "## 修复"),
                "brief-sample/article.zh.md:13: unknown heading",
            ),
            (
                *("article.en.md", "print(divisor)", "\n".join("abcdef")),
                "brief-sample/article.en.md:5: symptom: its test has 6 lines",
            ),
            (
                *("issue.toml", 'depth = "brief"', 'depth = "short"'),
                "brief-sample/issue.toml:4: depth: must be one of brief",
            ),
        ):
            with self.subTest(said=said):
                self.assertIn(said, self.refused(name, old, new))
                (self.folder / name).write_text(FILES[name], encoding="utf-8")

    def test_it_names_a_source(self) -> None:
        toml = (self.folder / "issue.toml").read_text()
        (self.folder / "issue.toml").write_text(toml.partition("[[source]]")[0])
        with self.assertRaises(CommandError) as caught:
            self.load()
        self.assertIn("source: is missing; a brief record", str(caught.exception))
