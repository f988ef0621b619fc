"""The files of laws: loaded with the records or refused, with file and line."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, TestCase

from kb.models import Law, Record
from kb.records.laws import read_laws
from portable import harness
from portable.nan_probe.known import FORMS, RECORDS
from tests.support.sample_record import write_sample

LAWS = Path(settings.ISSUES_DIR).parent / "laws"
SLUG = "log-of-zero"


class LawFilesTest(TestCase):
    def setUp(self) -> None:
        base = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.root = base / "issues"
        self.root.mkdir()
        write_sample(self.root)
        self.folder = base / "laws" / SLUG
        shutil.copytree(LAWS / SLUG, self.folder)
        (self.evidence,) = (self.folder / "evidence").iterdir()

    def load(self) -> None:
        call_command("load_records", str(self.root), verbosity=0, stdout=io.StringIO())

    def refused(self) -> str:
        with self.assertRaises(CommandError) as caught:
            self.load()
        self.assertFalse(Record.objects.exists() or Law.objects.exists())
        return str(caught.exception)

    def changed(self, name: str, old: str, new: str) -> str:
        """What is said once `old` in the file is `new`."""
        path = self.folder / name
        text = path.read_text()
        self.assertIn(old, text)
        path.write_text(text.replace(old, new, 1))
        said = self.refused()
        path.write_text(text)
        return said

    def ran(self, change: Any) -> str:
        """What is said of the run once `change` was made to it, under a new digest."""
        body = json.loads(self.evidence.read_text())
        change(body)
        del body["digest"]
        self.evidence.write_text(harness.dumps(harness.sealed(body)))
        return self.refused()

    def test_they_are_loaded_with_the_records(self) -> None:
        self.load()
        law = Law.objects.get()
        self.assertEqual((law.slug, law.name), (SLUG, "log of 0"))
        self.assertEqual((law.torch, law.device), ("2.13.0+cpu", "cpu"))
        self.assertEqual(law.nodes, ["LogBackward"])
        self.assertEqual(law.program["gradient"], ["inf"])
        modified = law.modified
        self.load()
        self.assertEqual(Law.objects.get().modified, modified)
        shutil.rmtree(self.folder)
        self.load()
        self.assertFalse(Law.objects.exists())

    def test_records_elsewhere_leave_them_alone(self) -> None:
        self.load()
        shutil.rmtree(self.folder.parent)
        self.load()
        self.assertTrue(Law.objects.exists())

    def test_a_form_is_what_its_run_showed(self) -> None:
        self.load()
        forms = {form["name"]: form for form in Law.objects.get().forms}
        self.assertEqual(
            {name: form["outcome"] for name, form in forms.items()},
            {
                "log_softmax": "helps",
                "clamp": "no_gradient",
                "other_operand": "no_gradient",
                "eps": "changed",
                "mask_result": "not_in_gradient",
                "nan_to_num": "not_in_gradient",
            },
        )
        self.assertEqual(next(iter(forms)), "log_softmax")
        self.assertEqual(forms["clamp"]["gradient"], ["0"])
        self.assertEqual(forms["mask_result"]["gradient"], ["nan"])
        self.assertIn("def apply_clamp(a):", forms["clamp"]["code"])

    def test_a_wrong_file_is_named_with_its_line(self) -> None:
        for name, old, new, said in [
            ("law.toml", 'law = "log of 0"', 'law = "log of 7"', "law.toml:3: law: "),
            ("law.toml", 'slug = "', 'slug = "other-', "law.toml:2: slug: "),
            ("law.toml", 'name = "clamp"', 'name = "cut"', "form[1].name: names no"),
            ("law.toml", "schema = 1", "schema = ", "is not TOML"),
            ("repro.py", "def program(a", "def programme(a", "repro.py"),
            ("repro.py", "observe(apply_clamp)", "observe(program)", "apply_clamp"),
            ("repro.py", "tiny", "eps", "comes from another program: run this one"),
        ]:
            with self.subTest(new):
                found = self.changed(name, old, new)
                self.assertIn(f"../laws/{SLUG}/", found)
                self.assertIn(said, found)

    def test_a_law_stands_once(self) -> None:
        shutil.copytree(self.folder, self.folder.parent / "log-of-zero-again")
        path = self.folder.parent / "log-of-zero-again" / "law.toml"
        path.write_text(path.read_text().replace(SLUG, "log-of-zero-again"))
        self.assertIn("law.toml:3: law: 'log of 0' stands twice", self.refused())

    def test_what_a_run_does_not_bear_out_is_refused(self) -> None:
        def no_bug(body: dict[str, Any]) -> None:
            body["checks"][3]["observations"] |= {"nonfinite": 0}

        said = {
            "It says so itself": (
                lambda body: body.update(verdict="bug_absent"),
                "disagrees with its checks",
            ),
            "Other numbers": (no_bug, "disagrees with its checks"),
            "No numbers": (
                lambda body: body["checks"][4]["observations"].pop("gradient"),
                "is not evidence of a law: KeyError('gradient')",
            ),
            "No form": (
                lambda body: body["checks"].pop(4),
                "is not evidence of a law: KeyError('workaround_clamp')",
            ),
        }
        text = self.evidence.read_text()
        for name, (change, wanted) in said.items():
            with self.subTest(name):
                self.evidence.write_text(text)
                found = self.ran(change)
                self.assertIn(f"../laws/{SLUG}/evidence/{self.evidence.name}", found)
                self.assertIn(wanted, found)

    def test_a_run_that_was_edited_or_is_missing_is_refused(self) -> None:
        text = self.evidence.read_text()
        self.evidence.write_text(text.replace('"nonfinite":2', '"nonfinite":3', 1))
        self.assertIn("was changed after it was written", self.refused())
        self.evidence.unlink()
        self.assertIn("holds 0 files; one run is wanted", self.refused())


class ShippedLawsTest(SimpleTestCase):
    def test_each_law_of_the_probe_has_its_files(self) -> None:
        laws = read_laws(Path(settings.ISSUES_DIR))
        assert laws is not None
        self.assertEqual({law.facts["law"] for law in laws}, set(FORMS))
        # Of laws that records have, none is without a page.
        unknown = "no law is known for this op"
        named = {law for _slice, law in RECORDS.values()} - {unknown}
        self.assertEqual(named - set(FORMS), set())
        self.assertEqual({law.columns["torch"] for law in laws}, {"2.13.0+cpu"})

    def test_what_the_probe_tries_stands_there_with_what_came_out(self) -> None:
        laws = read_laws(Path(settings.ISSUES_DIR)) or []
        forms = [form for law in laws for form in law.columns["forms"]]
        codes = "\n".join(form["code"] for form in forms)
        for source in {source for several in FORMS.values() for source in several}:
            with self.subTest(source):
                self.assertIn(f"return {source}\n", f"{codes}\n")
