"""The files of symptoms: loaded with the records or refused, with file and line."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import TestCase

from kb.models import Record, Symptom
from tests.support.sample_record import write_sample

TEXT = """\
schema = 1
slug = "a-symptom"
title = {en = "A symptom", zh = "一种症状"}
summary = {en = "Many do this.", zh = "原因很多。"}
words = ["zebra stripes"]

[[signature]]
text = "{'loss': 0.0, 'grad_norm': nan}"

[[cause]]
record = "NAN-9001"
tells = {en = "It is the sample.", zh = "这是样例。"}
"""


class SymptomFilesTest(TestCase):
    def setUp(self) -> None:
        self.base = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.root = self.base / "issues"
        self.root.mkdir()
        write_sample(self.root)
        (self.base / "symptoms").mkdir()
        self.path = self.base / "symptoms" / "a-symptom.toml"
        self.path.write_text(TEXT)

    def load(self) -> None:
        call_command("load_records", str(self.root), verbosity=0, stdout=io.StringIO())

    def refused(self, old: str, new: str) -> str:
        self.path.write_text(TEXT.replace(old, new))
        self.assertNotEqual(self.path.read_text(), TEXT)
        with self.assertRaises(CommandError) as caught:
            self.load()
        self.assertFalse(Record.objects.exists())
        self.assertFalse(Symptom.objects.exists())
        return str(caught.exception)

    def test_they_are_loaded_with_the_records(self) -> None:
        self.load()
        row = Symptom.objects.get()
        self.assertEqual((row.slug, row.title_zh), ("a-symptom", "一种症状"))
        self.assertEqual(row.causes[0]["record"], "NAN-9001")
        modified = row.modified
        self.load()
        self.assertEqual(Symptom.objects.get().modified, modified)
        self.path.write_text(TEXT.replace("Many do this.", "Some do this."))
        self.load()
        self.assertGreater(Symptom.objects.get().modified, modified)
        self.path.unlink()
        self.load()
        self.assertFalse(Symptom.objects.exists())

    def test_records_elsewhere_leave_them_alone(self) -> None:
        self.load()
        self.path.unlink()
        (self.base / "symptoms").rmdir()
        self.load()
        self.assertTrue(Symptom.objects.exists())

    def test_each_fault_is_named_with_file_and_line(self) -> None:
        for old, new, said in (
            (
                "NAN-9001",
                "NAN-9009",
                "11: cause[0].record: there is no record NAN-9009",
            ),
            ("NAN-9001", "9001", "11: cause[0].record: must look like"),
            (
                'slug = "a-symptom"',
                'slug = "other"',
                "2: slug: must be the file's name",
            ),
            ("schema = 1", "schema = 2", "1: schema: must be 1"),
            ('zh = "一种症状"', 'zh = "A symptom"', "3: title"),
            ("[[cause]]", "[[causes]]", "causes: unknown key"),
            ("tells =", "tell =", "12: cause[0].tell: unknown key"),
            ("schema = 1", "schema = ", "is not TOML"),
        ):
            with self.subTest(new):
                found = self.refused(old, new)
                self.assertIn("../symptoms/a-symptom.toml:", found)
                self.assertIn(said.split(": ", 1)[-1], found)
                if said[0].isdigit():
                    line = said.split(":")[0]
                    self.assertRegex(found, rf"a-symptom\.toml:{line}: ")

    def test_a_cause_that_stands_twice_is_refused(self) -> None:
        cause = TEXT[TEXT.index("[[cause]]") :]
        found = self.refused(cause, f"{cause}\n{cause}")
        self.assertIn("'NAN-9001' stands twice", found)

    def test_the_shipped_ones_name_published_records(self) -> None:
        folder = settings.ISSUES_DIR.parent / "symptoms"
        self.assertEqual(len(list(folder.glob("*.toml"))), 2)
