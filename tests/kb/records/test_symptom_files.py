"""The files of symptoms: loaded with the records or refused, with file and line."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from unittest import mock

from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import TestCase

from kb.models import Record, Symptom
from kb.records.symptoms import read_symptoms
from kb.search.index import writer
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
slug = "sample"
ask = {en = "Is it the sample?", zh = "是样例吗？"}
when = ['trainer == "trl"']

[[cause]]
slug = "no-record"
name = {en = "A cause without a record", zh = "还没有记录的原因"}
ask = {en = "Is it that?", zh = "是那个吗？"}
never = ['device == "cpu"']
people = 3
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
        self.assertEqual([c["slug"] for c in row.causes], ["sample", "no-record"])
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
                'slug = "sample"',
                'slug = "simple"',
                "11: cause[0].slug: no record is called simple; give the cause a name",
            ),
            ('"sample"', '"A sample"', "11: cause[0].slug: must look like"),
            (
                'trainer == "trl"',
                'train == "trl"',
                "13: cause[0].when[0]: is not a predicate: train is no fact",
            ),
            (
                'device == "cpu"',
                "device == cpu",
                "19: cause[1].never[0]: is not a predicate",
            ),
            (
                'slug = "a-symptom"',
                'slug = "other"',
                "2: slug: must be the file's name",
            ),
            ("schema = 1", "schema = 2", "1: schema: must be 1"),
            ('zh = "一种症状"', 'zh = "A symptom"', "3: title"),
            ("[[cause]]", "[[causes]]", "causes: unknown key"),
            (
                'ask = {en = "Is it the',
                'asks = {en = "Is it the',
                "12: cause[0].asks: unknown key",
            ),
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
        found = self.refused('slug = "no-record"', 'slug = "sample"')
        self.assertIn("'sample' stands twice", found)

    def test_a_load_that_is_killed_leaves_the_old_ones(self) -> None:
        self.load()
        self.path.write_text(TEXT.replace("Many do this.", "Some do this."))
        stopped = mock.patch.object(writer, "bring_up_to_date", side_effect=SystemExit)
        with stopped, self.assertRaises(SystemExit):
            self.load()
        self.assertEqual(Symptom.objects.get().summary_en, "Many do this.")

    def test_the_shipped_ones_can_be_read(self) -> None:
        slugs = {path.name for path in settings.ISSUES_DIR.iterdir()}
        files = read_symptoms(settings.ISSUES_DIR, slugs)
        self.assertGreaterEqual(len(files or []), 16)
