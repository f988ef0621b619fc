"""What a check does and what came out of it, in words of both languages."""

from __future__ import annotations

import re

from django.conf import settings
from django.test import SimpleTestCase
from django.utils.translation import override

from kb.findings.checks import came_out, title_of
from kb.models import Record
from kb.records.files import read_all
from kb.wording import facet_title
from tests.kb.pages.test_pages import Page, PageTest
from tests.support import runs

SHIPPED = settings.BASE_DIR / "fixtures/issues"
NAMES = re.compile(r"\b(?:workaround|refuted|diagnose)_\w+")


class WordsTest(SimpleTestCase):
    def record(self) -> Record:
        text = {"en": "Nothing is cast", "zh": "没有任何转换"}
        return Record(id="NAN-9001", check_titles=[{"name": "refuted_x", "text": text}])

    def test_the_records_own_text_comes_first(self) -> None:
        self.assertEqual(title_of(self.record(), "refuted_x")["zh"], "没有任何转换")
        self.assertEqual(title_of(self.record(), "refuted_no_cast")["en"], "no cast")
        trigger = title_of(self.record(), "trigger")
        self.assertEqual(trigger["zh"], "缺陷本身的复现脚本")

    def test_the_same_outcome_means_another_thing_of_another_check(self) -> None:
        said = {
            (check, outcome): str(came_out(check, outcome))
            for check in ("trigger", "workaround_x", "refuted_x")
            for outcome in ("bug", "clean")
        }
        self.assertEqual(said["workaround_x", "clean"], "the bug is gone")
        self.assertEqual(said["refuted_x", "bug"], "the bug is still there")
        self.assertEqual(said["trigger", "clean"], "no bug seen")
        self.assertIsNone(came_out("trigger", "error"))
        model = came_out("trigger", "bug", modelled=True)
        self.assertEqual(str(model), "a model shows the mechanism")


class FacetTest(SimpleTestCase):
    def test_what_a_log_shows_is_said_in_words(self) -> None:
        said = {
            "grad_norm_nan": "grad_norm is NaN",
            "eval_loss_zero": "eval_loss is exactly 0",
            "nan_in_PowBackward": "PowBackward returned NaN in backward",
            "odd": "odd",
        }
        self.assertEqual({name: facet_title(name)["en"] for name in said}, said)
        with override("zh-hans"):
            self.assertEqual(facet_title("loss_inf")["zh"], "loss 为无穷大")


class ShippedTest(SimpleTestCase):
    def test_every_check_that_a_reader_meets_has_a_sentence(self) -> None:
        for file in read_all(SHIPPED):
            named = {row["name"] for row in file.facts.get("check", [])}
            source = "\n".join(file.repros.values())
            wanted = set(re.findall(r"^def ((?:workaround|refuted)_\w+)", source, re.M))
            wanted |= {
                f"workaround_{row['name']}" for row in file.facts.get("workaround", [])
            }
            with self.subTest(file.slug):
                self.assertEqual(named, wanted)


class PagesTest(PageTest):
    def test_names_stand_only_where_the_evidence_is_named(self) -> None:
        text = {"en": "It is turned off", "zh": "把它关掉"}
        Record.objects.update(
            check_titles=[{"name": "workaround_turn_off", "text": text}]
        )
        self.finished_run()
        self.record.findings.filter(check_name="workaround_turn_off").update(
            outcome="bug"
        )
        for path in ("/en/claims/", "/en/contradictions/", "/en/NAN-9001/sample/"):
            html = self.page(path)
            said = re.sub(r'(?s)<(?:div|p) class="ev">.*?</(?:div|p)>', "", html)
            said = re.sub(r"(?s)<pre.*?</pre>", "", said)
            with self.subTest(path):
                self.assertEqual(NAMES.findall(Page(said).text), [])
        claims = Page(self.page("/en/claims/")).text
        self.assertIn("It is turned off: the bug is still there.", claims)
        zh = Page(self.page("/zh/contradictions/")).text
        self.assertIn(f"把它关掉：在 {runs.SLUG} 上出现缺陷", zh)
        self.assertIn("若此说法成立，就不应出现。", zh)
