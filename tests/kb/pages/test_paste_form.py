"""What the front page sends: a file in place of a paste, and pastes too long."""

from __future__ import annotations

import re
from pathlib import Path
from unittest import mock

from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import TestCase

from kb.lookup.paste import MAX_BYTES
from kb.pages import paste as paste_form
from kb.search.reading import lines
from tests.kb.lookup.test_lookup import WARNING as LOST
from tests.support import runs
from tests.support.records import FirstRecords

WARNING = 'UserWarning: "strides" \\ differ'
PART = "Your paste was over 1 MiB."
SCRIPT = (Path(settings.BASE_DIR) / "static" / "paste.js").read_text()


class PasteFormTests(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        runs.load_sample()

    def post(self, status: int = 200, **form: object) -> str:
        response = self.client.post("/en/lookup/", form)
        self.assertEqual(response.status_code, status)
        return response.text

    def file(self, text: str) -> SimpleUploadedFile:
        return SimpleUploadedFile("train.log", text.encode())

    def long_log(self) -> str:
        """Over the limit, with what tells in the middle of it."""
        rows = [f"step {number} loss 2.31 lr 0.0001" for number in range(60_000)]
        rows[30_000] = WARNING
        text = "\n".join(rows)
        self.assertGreater(len(text), MAX_BYTES)
        return text

    def test_a_paste_over_the_limit_is_read_by_its_telling_lines(self) -> None:
        html = self.post(log=self.long_log(), env="torch==2.13.0")
        self.assertIn("NAN-9001", html)
        self.assertIn(PART, html)

    def test_a_file_is_read_in_place_of_the_box(self) -> None:
        html = self.post(log="", env="", file=self.file(f"a\n{WARNING}\n"))
        self.assertIn("NAN-9001", html)
        self.assertNotIn(PART, html)
        self.assertIn("NAN-9001", self.post(log="", file=self.file(self.long_log())))

    def test_a_file_of_many_megabytes_is_read_too(self) -> None:
        text = self.long_log() * 4
        self.assertGreater(len(text), settings.FILE_UPLOAD_MAX_MEMORY_SIZE)
        html = self.post(log="", file=self.file(text))
        self.assertIn("NAN-9001", html)
        self.assertIn(PART, html)

    def test_a_file_without_end_is_refused(self) -> None:
        with mock.patch.object(paste_form, "MAX_UPLOAD", 3_000_000):
            html = self.post(413, log="", file=self.file("x" * 3_100_000))
        self.assertIn("too large for a form", html)

    def test_endless_lines_are_cut_alike_until_they_fit(self) -> None:
        rows = "\n".join(f"{number} " + "x" * 4000 for number in range(3000))
        text = paste_form.telling_lines(self.file(rows), MAX_BYTES)
        self.assertLessEqual(len(text.encode()), MAX_BYTES)
        self.assertEqual(len(text.split("\n")), 3000)

    def test_the_browser_chooses_lines_by_the_same_rule(self) -> None:
        found = re.search(r"COMPLAINS = /(.+)/;", SCRIPT)
        assert found
        self.assertEqual(found[1], lines.COMPLAINS.pattern)
        numbers = re.search(r"= \[(1000), (3000), (2000), (4000)\];", SCRIPT)
        assert numbers
        expected = (lines.HEAD_LINES, lines.TAIL_LINES, lines.MIDDLE_LINES)
        self.assertEqual(
            [int(number) for number in numbers.groups()],
            [*expected, lines.LINE_CHARS],
        )


class TypedTorchTests(FirstRecords):
    """A match for sure, whose page asks for the build that was not given."""

    def answer(self, **form: str) -> str:
        response = self.client.post("/en/lookup/", {"log": f"{LOST} a grad_fn", **form})
        self.assertEqual(response.status_code, 200)
        return response.text

    def test_a_build_typed_beside_the_answer_is_what_it_is_about(self) -> None:
        html = self.answer(env="peft==0.15.0")
        self.assertIn('name="torch"', html)
        html = self.answer(env="peft==0.15.0", torch=" 2.5.1+cu124 ")
        self.assertIn("torch <b>2.5.1+cu124</b>", html)
        self.assertIn("peft <b>0.15.0</b>", html)
        html = self.answer(torch="2.5.1+cu124, NVIDIA A100")
        self.assertIn("torch <b>2.5.1+cu124</b>", html)
        self.assertIn('value="card=NVIDIA A100"', html)
