"""Five questions: what each answer rules out, and why."""

from __future__ import annotations

from typing import Any

from django.test import TestCase
from django.utils import translation

from kb.choices import Publication, Upstream
from kb.lookup.answer import look_up
from kb.models import Record
from kb.pages import triage
from kb.publishing import saving


def make(number: int, **facts: Any) -> Record:
    messages = facts.pop("messages", [])
    entry = {
        "publication": Publication.PUBLISHED,
        "upstream": Upstream.UNKNOWN,
        "symptom_class": "nan_grad",
        "title_en": f"Title {number}",
        "title_zh": f"标题 {number}",
        "signatures": [{"kind": "message", "text": text} for text in messages],
        "affected": [{"package": "torch", "events": [{"introduced": "0"}]}],
        **facts,
    }
    record = Record(id=f"NAN-{number}", slug=f"record-{number}", **entry)
    saving.save(record)
    return record


class RulesTests(TestCase):
    def setUp(self) -> None:
        # Another test's request may have left its language.
        self.enterContext(translation.override("en"))

    @classmethod
    def setUpTestData(cls) -> None:
        dtype = [{"key": "dtype", "value": "bf16/fp16", "text": {"en": "", "zh": ""}}]
        flag = [{"key": "flag", "value": "torch.compile", "text": {"en": "", "zh": ""}}]
        make(2001, symptom_class="nan_forward")
        make(2002, symptom_class="nan_grad", preconditions=dtype)
        make(2003, symptom_class="lost_grad")
        make(2004, symptom_class="wrong_grad", components=["inductor"])
        make(2005, symptom_class="nan_forward", components=["optim"])
        make(2006, symptom_class="error", messages=["ValueError: a known text"])
        make(2007, symptom_class="nan_grad", components=["ddp"], preconditions=flag)

    def left(self, **answers: str) -> set[int]:
        page = triage.build(answers)
        every = {row.record.id for row in (*page.left, *page.ruled_out)}
        self.assertEqual(len(every), page.total)
        return {int(row.record.id[-1]) for row in page.left}

    def test_each_answer_narrows(self) -> None:
        rows: list[tuple[dict[str, str], set[int]]] = [
            ({"shows": "loss"}, {1, 2, 4, 5, 7}),
            ({"shows": "loss", "when": "first"}, {1, 4}),
            ({"shows": "norm"}, {2, 4, 7}),
            ({"shows": "values"}, {3, 4}),
            ({"shows": "error"}, {1, 2, 3, 5, 6, 7}),
            ({"compiled": "only"}, {4, 7}),
            ({"compiled": "eager"}, {1, 2, 3, 5, 6}),
            ({"dtype": "float32"}, {1, 3, 4, 5, 6, 7}),
            ({"dtype": "bfloat16"}, {1, 2, 3, 4, 5, 6, 7}),
            ({"ranks": "single"}, {1, 2, 3, 4, 5, 6}),
            ({"when": "later"}, {1, 2, 3, 4, 5, 6, 7}),
        ]
        for answers, expected in rows:
            with self.subTest(answers):
                self.assertEqual(self.left(**answers), expected)

    def test_what_fits_comes_first_with_its_reasons(self) -> None:
        page = triage.build({"dtype": "bfloat16", "shows": "norm"})
        first = page.left[0]
        self.assertEqual(first.record.id, "NAN-2002")
        texts = [reason.text for reason in first.fitting]
        self.assertIn("it happens in bfloat16, float16", texts)
        self.assertEqual(len(texts), 2)

    def test_what_is_ruled_out_says_by_what(self) -> None:
        page = triage.build({"compiled": "eager"})
        (row,) = [row for row in page.ruled_out if row.record.id == "NAN-2004"]
        self.assertEqual([reason.text for reason in row.contrary], [
            "it needs torch.compile"
        ])  # fmt: skip

    def test_nothing_answered(self) -> None:
        for answers in ({}, {"when": "yesterday", "other": "x"}, {"shows": ""}):
            page = triage.build(answers)
            self.assertFalse(page.is_answered)
            self.assertEqual((page.left, page.total), ([], 7))

    def test_advice(self) -> None:
        (text,) = triage.build({"ranks": "some"}).advice
        self.assertIn("node", text)


class PageTests(TestCase):
    def setUp(self) -> None:
        # Another test's request may have left its language.
        self.enterContext(translation.override("en"))

    @classmethod
    def setUpTestData(cls) -> None:
        make(
            2001,
            symptom_class="nan_forward",
            signatures=[{"kind": "facet", "text": "loss_nan"}],
        )

    def test_the_state_is_in_the_address(self) -> None:
        response = self.client.get("/en/triage/?shows=loss&dtype=float16")
        html = response.content.decode()
        self.assertContains(response, "Title 2001")
        self.assertContains(response, "its loss becomes nan or inf")
        self.assertIn('<option value="loss" selected>', html)
        self.assertIn('<option value="float16" selected>', html)
        self.assertEqual(html.count("<select"), 5)
        self.assertIn('href="/zh/triage/?shows=loss&amp;dtype=float16"', html)

    def test_it_says_how_many_each_reason_ruled_out(self) -> None:
        page = triage.build({"shows": "loss", "when": "first"})
        self.assertEqual(sum(len(gone.rows) for gone in page.gone), len(page.ruled_out))
        counts = [len(gone.rows) for gone in page.gone]
        self.assertEqual(counts, sorted(counts, reverse=True))
        html = self.client.get("/en/triage/?shows=loss&when=first").text
        for gone in page.gone:
            self.assertIn(f"{gone.why} ({len(gone.rows)})", html)

    def test_both_languages_and_no_answer(self) -> None:
        for address in ("/en/triage/", "/zh/triage/", "/zh/triage/?when=%00&ranks=<"):
            with self.subTest(address):
                self.assertEqual(self.client.get(address).status_code, 200)

    def test_the_probe_can_be_fetched(self) -> None:
        html = self.client.get("/en/triage/").content.decode()
        self.assertRegex(html, r'href="/static/nan_probe\S*\.py" download=')

    def test_numbers_alone_lead_here(self) -> None:
        found = look_up("loss: nan")
        self.assertEqual(found["outcome"], "possible")
        self.assertEqual(found["query"]["facets"], ["loss_nan"])
        response = self.client.post("/en/lookup/", {"log": "loss: nan"})
        self.assertContains(response, "/en/triage/?shows=loss")

    def test_no_match_leads_here(self) -> None:
        response = self.client.post("/en/lookup/", {"log": "KeyError: 'a'"})
        self.assertContains(response, 'href="/en/triage/"')

    def test_what_a_look_up_saw_is_answered(self) -> None:
        rows = {
            "loss_nan grad_norm_nan": "?shows=loss",
            "grad_norm_inf": "?shows=norm",
            "nan_in_CompiledFunctionBackward dtype_bfloat16": (
                "?compiled=only&dtype=bfloat16"
            ),
            "loss_zero": "",
        }
        for facets, expected in rows.items():
            with self.subTest(facets):
                address = triage.address_for({"facets": facets.split()})
                self.assertEqual(address, "/en/triage/" + expected)
