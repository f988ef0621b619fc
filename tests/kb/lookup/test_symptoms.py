"""Symptoms of many causes: shown where a paste does not tell which cause it is."""

from __future__ import annotations

import io
import tempfile
from typing import Any
from unittest import mock

from django.core.management import call_command
from django.test import TestCase
from django.utils.translation import override

from kb.lookup import symptoms
from kb.lookup.answer import look_up
from kb.models import Record, Symptom
from kb.search.reading.symptom_facets import metrics_in
from tests.support import loaded

LOSS, SAMPLING = "loss-zero-grad-norm-nan", "probability-tensor-inf-nan"
LINE = "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4e-05, 'epoch': 0.36}"
MESSAGE = "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0"
WARNING = (
    "UserWarning: None of the inputs have requires_grad=True. Gradients will be None"
)


def slugs(rows: list[Symptom]) -> list[str]:
    return [row.slug for row in rows]


class SymptomTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def shown(self, log: str) -> list[str]:
        return [row["slug"] for row in look_up(log)["symptoms"]]


class LookUpTest(SymptomTest):
    def test_a_line_that_names_no_cause_gets_the_causes(self) -> None:
        for log, slug in (
            (LINE, LOSS),
            ("step 3 loss: 0.0\nstep 3 grad_norm: nan", LOSS),
            ("loss=0 grad_norm=nan", LOSS),
            ("loss 0.0 grad_norm nan", LOSS),
            ("loss 为 0 grad_norm nan", LOSS),
            ("step 12 loss 0.0000 grad_norm nan lr 1e-5", LOSS),
            (MESSAGE, SAMPLING),
            (f"Traceback (most recent call last):\n{MESSAGE}", SAMPLING),
            ("why is the loss 0 and the grad norm nan", LOSS),
            ("微调时 loss 为 0，grad_norm 为 nan", LOSS),
        ):
            with self.subTest(log):
                self.assertEqual(self.shown(log), [slug])

    def test_half_of_a_symptom_is_none(self) -> None:
        for log in (
            "{'loss': 0.0, 'grad_norm': 1.3}",
            "{'loss': 2.3, 'grad_norm': nan}",
            "loss 0.3 grad_norm nan",
            "loss 0 in 10 of 12 runs, grad_norm nan",
            "probability of a tensor",
            "torch==2.6.0",
            "qwerty zxcvb",
        ):
            with self.subTest(log):
                self.assertEqual(self.shown(log), [])

    def test_where_the_cause_is_told_there_is_nothing_to_tell_apart(self) -> None:
        found = look_up(f"{WARNING}\n{LINE}")
        self.assertEqual(found["outcome"], "exact")
        self.assertEqual(found["symptoms"], [])

    def test_the_shape(self) -> None:
        (found,) = look_up(LINE)["symptoms"]
        keys = ["slug", "title", "summary", "causes", "urls"]
        self.assertEqual(list(found), keys)
        self.assertEqual(list(found["causes"][0]), ["record", "title", "tells", "urls"])
        self.assertTrue(found["urls"]["html"]["zh"].endswith(f"/zh/symptoms/{LOSS}/"))
        body: Any = self.client.post(
            "/api/v1/lookup",
            {"log": LINE, "lang": "zh"},
            content_type="application/json",
        ).json()
        (cause, *_rest) = body["symptoms"][0]["causes"]
        self.assertIn("梯度裁剪", cause["tells"])

    def test_the_command_says_so_too(self) -> None:
        out = io.StringIO()
        with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
            file.write(LINE)
            file.flush()
            environment = mock.patch.dict("os.environ", {"LC_ALL": "C.UTF-8"})
            with environment, self.assertRaises(SystemExit) as caught:
                call_command("lookup", file.name, stdout=out)
        self.assertEqual(caught.exception.code, 3)
        self.assertIn("Several causes look like this", out.getvalue())
        self.assertIn("an older DeepSpeed logs no nan", out.getvalue())

    def test_a_record_that_is_not_published_is_no_cause(self) -> None:
        causes = [cause["record"] for cause in look_up(LINE)["symptoms"][0]["causes"]]
        self.assertEqual(causes[:2], ["NAN-0053", "NAN-0001"])
        Record.objects.filter(pk="NAN-0053").update(publication="draft")
        causes = [cause["record"] for cause in look_up(LINE)["symptoms"][0]["causes"]]
        self.assertEqual(causes[0], "NAN-0001")
        Record.objects.update(publication="draft")
        self.assertEqual(look_up(LINE)["symptoms"], [])
        with override("en"):
            path = Symptom.objects.get(pk=LOSS).get_absolute_url()
        self.assertEqual(self.client.get(path).status_code, 404)


class PagesTest(SymptomTest):
    def test_a_symptom_has_a_page_in_both_languages(self) -> None:
        page = self.client.get(f"/en/symptoms/{LOSS}/")
        self.assertContains(page, "an older DeepSpeed logs no nan")
        self.assertLess(
            page.content.index(b"NAN-0053"), page.content.index(b"NAN-0052")
        )
        self.assertContains(
            self.client.get(f"/zh/symptoms/{LOSS}/"), "更早的 DeepSpeed"
        )
        self.assertEqual(self.client.get("/en/symptoms/none/").status_code, 404)

    def test_the_page_of_a_look_up_names_each_cause_once(self) -> None:
        page = self.client.post("/en/lookup/", {"log": LINE}).content.decode()
        self.assertIn(f'href="/en/symptoms/{LOSS}/"', page)
        self.assertEqual(page.count('href="/en/NAN-0053/'), 1)
        self.assertLess(
            page.index("Several causes look like this"), page.index("Leads")
        )
        self.assertIn("Unknown: run it", page)

    def test_the_list_of_records_begins_with_them(self) -> None:
        page = self.client.get("/en/records/").content.decode()
        self.assertLess(page.index(f"/en/symptoms/{LOSS}/"), page.index("/en/NAN-"))
        narrowed = self.client.get("/en/records/?symptom=nan_grad")
        self.assertNotContains(narrowed, f"/en/symptoms/{LOSS}/")

    def test_a_search_finds_them_first_by_their_words(self) -> None:
        for words, slug in (
            ("probability tensor contains either inf, nan or element < 0", SAMPLING),
            ("probability tensor", SAMPLING),
            ("概率张量含 nan", SAMPLING),
            ("loss 0.0 grad_norm nan", LOSS),
            ("loss 为 0 grad_norm 为 nan", LOSS),
            ("损失为 0，梯度范数 nan", LOSS),
        ):
            with self.subTest(words):
                page = self.client.get("/en/search/", {"q": words}).content.decode()
                link = f"/en/symptoms/{slug}/"
                self.assertIn(link, page)
                if "/en/NAN-" in page:
                    self.assertLess(page.index(link), page.index("/en/NAN-"))

    def test_other_words_do_not_find_them(self) -> None:
        for words in ("loss nan", "grad_norm nan", "nan", "sdpa", "梯度", "tensor inf"):
            self.assertEqual(slugs(symptoms.of_words(words)), [], words)

    def test_the_sitemap_names_them(self) -> None:
        page = self.client.get("/sitemap.xml")
        for lang in ("en", "zh"):
            self.assertContains(page, f"/{lang}/symptoms/{SAMPLING}/")


class ShippedTest(SymptomTest):
    def test_each_is_found_by_its_own_lines_and_names(self) -> None:
        rows = list(Symptom.objects.all())
        self.assertEqual(len(rows), 2)
        for row in rows:
            for line in row.signatures:
                self.assertIn(row.slug, self.shown(line))
            for words in row.words:
                self.assertEqual(slugs(symptoms.of_words(words)), [row.slug], words)

    def test_no_cause_is_named_that_does_not_show_it(self) -> None:
        """The metrics of a symptom: some cause names them, each cause one of them."""
        row = Symptom.objects.get(pk=LOSS)
        wanted = set(metrics_in(row.signatures[0]).facets)
        for cause in row.causes:
            record = Record.objects.get(pk=cause["record"])
            facets = {s["text"] for s in record.signatures if s["kind"] == "facet"}
            self.assertTrue(facets & (wanted | {"grad_norm_inf"}), record.pk)


class EvidenceTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped_with_evidence()

    def test_the_code_that_decides_stands_below_its_cause(self) -> None:
        page = self.client.get(f"/en/symptoms/{SAMPLING}/")
        self.assertContains(page, "def diagnose_")
