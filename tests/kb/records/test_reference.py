"""docs/records.md describes every key of a record, with every word it may have."""

from django.conf import settings
from django.test import SimpleTestCase

from kb import choices
from kb.records.facts import BUILD, BUILD_STATES, KEYS, TABLES
from portable import harness


class ReferenceTest(SimpleTestCase):
    def setUp(self) -> None:
        self.page = (settings.BASE_DIR / "docs" / "records.md").read_text()

    def test_every_key_has_a_place(self) -> None:
        for key in KEYS:
            if key.name not in TABLES:
                self.assertRegex(self.page, rf"(?m)^\| [^|]*`{key.name}`", key.name)
        for name, keys in TABLES.items():
            _before, _mark, rest = self.page.partition(f"`[[{name}]]`: ")
            table = rest.partition("\n\n`[[")[0].partition("\n## ")[0]
            for key in keys:
                star = r"\*" if key.optional else ""
                row = rf"(?m)^\| `{key.name}`{star} \|"
                self.assertRegex(table, row, f"{name}.{key.name}")
        for key in BUILD:
            self.assertIn(f"`{key.name}`", self.page)

    def test_every_word_of_an_enumeration_is_named(self) -> None:
        for words in (
            *(choices.Publication.values, choices.Upstream.values),
            *(choices.SymptomClass.values, choices.AffectedWhen.values),
            *(choices.SIGNATURE_KINDS, choices.WORKAROUND_KINDS, BUILD_STATES),
            *(choices.ClaimKind.values, choices.SOURCE_KINDS, choices.FIX_KINDS),
            *(choices.PRECONDITION_KEYS, choices.Expects.values),
            *(harness.FIDELITIES, harness.DEVICES, harness.NEEDS),
        ):
            for word in words:
                self.assertIn(f"`{word}`", self.page)

    def test_every_key_of_a_repros_header_is_named(self) -> None:
        apart = {"dependencies", "requires_python"}
        for name in harness.Header.__dataclass_fields__.keys() - apart:
            self.assertIn(f"`{name}`", self.page)
