"""Laws of arithmetic: their pages, and the answers that lead there."""

from __future__ import annotations

import io
from html import unescape
from typing import Any

from django.core.management import call_command
from django.test import TestCase

from kb.lookup.answer import look_up
from kb.models import Law, Record
from portable.nan_probe.known import RECORDS
from tests.support import loaded

REPORT = """\
nan_probe 2: first non-finite value
  direction: forward
  module: head (Head)
  op: torch.log (aten.log.default)
  cause: the op, from finite inputs
  law: {law}
  slice: log(mul(x, x): 0)
  value: nan 0, inf 2 of 2
  inputs: torch.float32 [2] |x| up to 0
"""
ANOMALY = "RuntimeError: Function '{}' returned nan values in its 0th output."
CERTAIN = (
    "UserWarning: cuDNN SDPA backward got grad_output.strides() != output.strides()"
)


class LawTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def answer(self, log: str) -> Any:
        return look_up(log)


class AnswerTest(LawTest):
    def test_a_report_of_the_probe_leads_to_its_law(self) -> None:
        for law in Law.objects.all():
            with self.subTest(law.name):
                found = self.answer(REPORT.format(law=law.name))
                (named,) = found["laws"]
                self.assertEqual((named["slug"], named["line"]), (law.slug, 6))
                self.assertTrue(named["is_certain"])
                said = f"Line 6 shows how the value was made: {law.title_en}."
                self.assertTrue(found["decision"]["en"].startswith(said))
                self.assertIn(law.title_zh, found["decision"]["zh"])

    def test_an_equal_law_is_never_a_record(self) -> None:
        for law in Law.objects.all():
            found = self.answer(REPORT.format(law=law.name))
            self.assertEqual(found["outcome"] in ("match", "exact"), False, law.name)

    def test_a_law_that_nobody_knows_leads_nowhere(self) -> None:
        for law in ("no law is known for this op", "log of 7"):
            self.assertEqual(self.answer(REPORT.format(law=law))["laws"], [])
        without = REPORT.replace("  law: {law}\n", "")
        self.assertEqual(self.answer(without)["laws"], [])

    def test_a_sure_record_is_the_whole_answer(self) -> None:
        report = REPORT.format(law="log of 0")
        found = self.answer(f"{CERTAIN}\n{report}")
        self.assertEqual(found["candidates"][0]["record"], "NAN-0001")
        self.assertEqual(found["laws"], [])
        self.assertNotIn("how the value was made", found["decision"]["en"])

    def test_anomaly_mode_names_a_node_that_several_laws_end_in(self) -> None:
        found = self.answer(ANOMALY.format("SqrtBackward0"))
        slugs = [row["slug"] for row in found["laws"]]
        self.assertEqual(slugs, ["root-at-zero", "root-of-negative"])
        self.assertEqual({row["is_certain"] for row in found["laws"]}, {False})
        can = "The operation in line 1 can give NaN through "
        self.assertIn(can, found["decision"]["en"])
        alone = self.answer(ANOMALY.format("LogBackward0"))["decision"]["en"]
        self.assertIn(f"{can}log of 0.", alone)
        self.assertEqual(self.answer(ANOMALY.format("NeverBackward0"))["laws"], [])
        # A tensor that is printed with its node is no NaN.
        printed = "tensor([1., 2.], grad_fn=<SqrtBackward0>)"
        self.assertEqual(self.answer(printed)["laws"], [])

    def test_page_and_terminal_link_it(self) -> None:
        log = REPORT.format(law="log of 0")
        page = self.client.post("/zh/lookup/", {"log": log})
        self.assertContains(page, 'href="/zh/laws/log-of-zero/"')
        sent = self.client.post(
            "/api/v1/lookup", {"log": log}, content_type="application/json"
        ).json()
        urls = sent["laws"][0]["urls"]["html"]
        self.assertTrue(urls["en"].endswith("/en/laws/log-of-zero/"))
        out, path = io.StringIO(), self.enterContext(io.BytesIO(log.encode()))
        with self.assertRaises(SystemExit):
            call_command("lookup", log=path, stdout=out)
        self.assertIn("/en/laws/log-of-zero/", out.getvalue())


class PageTest(LawTest):
    def page(self, slug: str, lang: str = "en") -> str:
        response = self.client.get(f"/{lang}/laws/{slug}/")
        self.assertEqual(response.status_code, 200)
        return unescape(response.content.decode())

    def test_each_has_a_page_in_both_languages(self) -> None:
        for law in Law.objects.all():
            for lang in ("en", "zh"):
                page = self.page(law.slug, lang)
                self.assertIn(law.text("summary", lang)[:30], page)
                self.assertIn("torch 2.13.0", page)
                for form in law.forms:
                    self.assertIn(form["text"][lang], page)
        self.assertEqual(self.client.get("/en/laws/none/").status_code, 404)

    def test_its_records_are_those_whose_trigger_fails_by_it(self) -> None:
        for law in Law.objects.all():
            wanted = {pk for pk, (_slice, name) in RECORDS.items() if name == law.name}
            page = self.page(law.slug)
            listed = {pk for pk in RECORDS if f"/en/{pk}/" in page}
            self.assertEqual(listed, wanted, law.name)

    def test_what_does_not_help_stands_apart(self) -> None:
        page = self.page("log-of-zero")
        at = page.index("What does not help")
        self.assertLess(page.index("def apply_clamp"), at)
        self.assertGreater(page.index("def apply_mask_result"), at)
        self.assertIn("finite, but its gradient is 0", page[:at])
        self.assertIn("finite, but its gradient is not", page[at:])

    def test_the_readers_own_call_stands_there_where_a_capture_led_there(self) -> None:
        address = "/en/laws/log-of-zero/"
        mine = {"call": "torch.log", "operands": "[0.0, 1e-30]", "heals": "0"}
        page = self.client.get(address, mine)
        self.assertContains(page, "Your call")
        self.assertContains(page, "[0.0, 1e-30]")
        self.assertContains(page, "<dt>Fixes it</dt>")
        page = self.client.get(address, {**mine, "heals": "", "does_not_heal": "0"})
        self.assertContains(page, "<dt>Does not fix it</dt>")
        # Whatever else an address says, the page does not repeat it.
        for other in (
            {"operands": "call us"},
            {"operands": "<b>0</b>"},
            {"operands": "0" * 201},
            {"call": "torch.load"},
        ):
            page = self.client.get(address, {**mine, **other})
            self.assertNotContains(page, "Your call")

    def test_a_record_names_its_law_once(self) -> None:
        record = Record.objects.get(pk="NAN-0083")
        page = self.client.get(record.get_absolute_url()).content.decode()
        self.assertEqual(page.count("/en/laws/"), 1)
        self.assertIn("/en/laws/overflow-of-exp/", page)
        other = Record.objects.get(pk="NAN-0001")
        self.assertNotContains(self.client.get(other.get_absolute_url()), "/laws/")

    def test_the_sitemap_has_them(self) -> None:
        text = self.client.get("/sitemap.xml").content.decode()
        for lang in ("en", "zh"):
            for law in Law.objects.all():
                self.assertIn(f"/{lang}/laws/{law.slug}/</loc>", text)
