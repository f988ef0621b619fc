"""Every shipped record: valid, bilingual, and tied to checks that exist."""

import json
from collections import Counter
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase
from packaging.requirements import Requirement
from packaging.version import Version

from kb.choices import Depth
from kb.records import translation
from kb.records.articles import HAN
from kb.records.files import RecordFile, read_all, repro_problems
from kb.records.rendering import sections_html
from kb.search.reading.signatures import read_titles
from portable import harness
from runner.authoring import quotes
from runner.evidence.repros import inspect
from tests.probe import slices


class ShippedRecordsTest(SimpleTestCase):
    records: list[RecordFile]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.records = read_all(settings.ISSUES_DIR)

    def test_the_first_are_there(self) -> None:
        expected = [f"NAN-{number:04}" for number in range(1, 17)]
        found = sorted(record.id for record in self.records)
        self.assertEqual(found[: len(expected)], expected)

    def test_no_text_names_a_package_index(self) -> None:
        for path in sorted(settings.ISSUES_DIR.glob("*/*.*")):
            text = path.read_text(encoding="utf-8")
            with self.subTest(record=path.parent.name, file=path.name):
                self.assertNotRegex(text, r"download\.pytorch\.org/whl|/simple/?\b")

    def test_the_slices_that_nan_probe_knows_are_of_these_triggers(self) -> None:
        asked = json.loads(slices.OF.read_text())
        self.assertEqual(asked, slices.triggers(), "run python -m tests.probe.slices")

    def test_evidence_is_one_canonical_line(self) -> None:
        for path in sorted(settings.ISSUES_DIR.glob("*/evidence/*.json")):
            with self.subTest(record=path.parent.parent.name, file=path.name):
                text = path.read_text(encoding="utf-8")
                self.assertTrue(text == harness.dumps(json.loads(text)) + "\n")

    def test_workarounds_ran_as_often_as_the_trigger(self) -> None:
        for path in sorted(settings.ISSUES_DIR.glob("*/evidence/*.json")):
            body = json.loads(path.read_text(encoding="utf-8"))
            often = Counter(check["name"] for check in body["checks"])
            for name in often:
                if name.startswith("workaround_"):
                    with self.subTest(record=path.parent.parent.name, file=path.name):
                        self.assertEqual(often[name], often["trigger"])

    def test_repros_keep_the_contract_and_claims_name_their_checks(self) -> None:
        for record in self.records:
            with self.subTest(record=record.id):
                facts = {
                    name: inspect(source) for name, source in record.repros.items()
                }
                if record.depth == Depth.FULL:
                    self.assertIn("repro", facts)
                self.assertEqual(repro_problems(record, facts), [])

    def test_no_requirement_is_a_bound_of_the_range(self) -> None:
        """Else a repro could not run where it would show that the range is wrong.

        But for `repro_fixed`, which shows that the fixed release is good.
        """
        for record in self.records:
            bounds = {
                (row["package"], Version(version))
                for row in record.facts.get("affected", [])
                for event in row["events"]
                for version in event.values()
            }
            for name, source in record.repros.items():
                with self.subTest(record=record.id, repro=name):
                    asked = map(Requirement, inspect(source).header["dependencies"])
                    needed = {
                        (row.name, Version(part.version))
                        for row in asked
                        for part in row.specifier
                    }
                    if name != "repro_fixed":
                        self.assertFalse(needed & bounds)

    def test_every_article_renders_in_both_languages(self) -> None:
        for record in self.records:
            with self.subTest(record=record.id):
                html = sections_html(record)
                self.assertTrue(HAN.search(str(html["zh"]["root_cause"])))
                self.assertNotIn("&lt;img", str(html))
                names = [row["name"] for row in record.facts.get("workaround", [])]
                for lang in ("en", "zh"):
                    parts = html[lang]["workarounds"]
                    assert isinstance(parts, dict)
                    self.assertEqual([name for name in parts if name], names)

    def test_no_translation_is_behind_its_source(self) -> None:
        behind = [file.slug for file in self.records if translation.outdated(file)]
        self.assertEqual(behind, [])

    def test_what_an_article_claims_is_there_with_its_source(self) -> None:
        for record in self.records:
            with self.subTest(record=record.id):
                if record.depth == Depth.BRIEF:
                    continue
                self.assertTrue(record.facts.get("claim"), "no claim")
                kinds = {row["kind"] for row in record.facts.get("source", [])}
                self.assertLessEqual({"article", "report"} & kinds, kinds)
                titles = read_titles(record.facts["source"])
                known_by = [*record.facts.get("signature", []), *titles]
                self.assertTrue(known_by, "nothing to match")

    def test_what_is_called_printed_was_printed(self) -> None:
        for record in self.records:
            folder = Path(settings.ISSUES_DIR) / record.slug
            toml = (folder / "issue.toml").read_text()
            # What threads report is not here; that they are named, the loader sees.
            reported = [row["text"] for row in record.facts.get("signature", [])]
            printed = quotes.printed_in(folder)
            unseen = list(quotes.unseen(record, toml, printed, reported))
            self.assertEqual(unseen, [])
