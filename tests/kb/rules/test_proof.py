"""Every rule of a shipped record proves itself on the record's own repros."""

from __future__ import annotations

from django.conf import settings
from django.test import SimpleTestCase

from kb.records.facts import rows
from kb.records.files import RecordFile, read_all
from kb.records.rules import proof_problems
from kb.rules import checkout
from runner.evidence.repros import inspect

ISSUES = settings.BASE_DIR / "fixtures" / "issues"


class ProofTest(SimpleTestCase):
    records: list[RecordFile]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.records = [
            record for record in read_all(ISSUES) if record.facts.get("rule")
        ]

    def problems(self, record: RecordFile, sources: dict[str, str]) -> list[str]:
        headers = {stem: inspect(text).header for stem, text in record.repros.items()}
        found = dict(rows(record.facts, "rule"))
        return [text for _key, text in proof_problems(found, sources, headers)]

    def test_each_fires_in_the_trigger_and_nowhere_else(self) -> None:
        for record in self.records:
            with self.subTest(record.id):
                self.assertEqual(self.problems(record, record.repros), [])

    def test_a_trigger_without_the_trap_is_noticed(self) -> None:
        clean = "\n\ndef trigger():\n    return {}\n"
        for record in self.records:
            with self.subTest(record.id):
                sources = {stem: text + clean for stem, text in record.repros.items()}
                found = self.problems(record, sources)
                self.assertIn("fires in no repro's trigger", found)

    def test_a_control_or_a_workaround_with_the_trap_is_noticed(self) -> None:
        for name in ("control", "apply_more"):
            bad = f"\n\ndef {name}():\n    return trigger()\n"
            for record in self.records:
                if name == "control" and self.is_by_data(record):
                    continue
                with self.subTest(record.id, name=name):
                    sources = {stem: text + bad for stem, text in record.repros.items()}
                    found = " ".join(self.problems(record, sources))
                    self.assertRegex(found, rf"fires in repro\w*\.py:{name}")

    def test_a_control_of_other_code_is_no_matter_of_data(self) -> None:
        clean = "\n\ndef control():\n    return {}\n"
        for record in filter(self.is_by_data, self.records):
            with self.subTest(record.id):
                sources = {stem: text + clean for stem, text in record.repros.items()}
                found = self.problems(record, sources)
                self.assertIn("fires in no repro's control", found)

    @staticmethod
    def is_by_data(record: RecordFile) -> bool:
        return any(rule.get("by_data") for rule in record.facts["rule"])

    def test_a_checkout_has_the_rules_of_all_published_records(self) -> None:
        found = {
            (rule["record"], rule["name"]) for rule in checkout.rules_of(str(ISSUES))
        }
        wanted = {
            (record.id, rule["name"])
            for record in self.records
            if record.facts["publication"] == "published"
            for rule in record.facts["rule"]
        }
        self.assertEqual(found, wanted)
        self.assertGreaterEqual(len({record for record, _name in found}), 25)
