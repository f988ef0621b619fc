"""Leads: what a paste speaks of, beside what its messages match."""

from django.test import TestCase

from kb.lookup.answer import look_up
from kb.models import Record
from kb.search.reading.parts import Kind, Part
from kb.search.reading.tokens import HAN_RUN
from tests.support import loaded

CODE = """import torch
import torch.nn.functional as fn

x = torch.randn(8, requires_grad=True)
y = fn.scaled_dot_product_attention(x, x, x, is_causal=True)
# None of the inputs have requires_grad=True. Gradients will be None
"""
WARNING = "None of the inputs have requires_grad=True. Gradients will be None"
TRAP = "scores = scores.half().masked_fill(hidden, -1e9)"
SAMPLING = "probability tensor contains either `inf`, `nan` or element < 0"


class LeadTests(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def leads(self, text: str) -> list[str]:
        return [lead["record"] for lead in look_up(text)["leads"]]

    def test_code_gives_leads_and_no_match(self) -> None:
        found = look_up(CODE)
        self.assertEqual((found["outcome"], found["matches"]), ("none", []))
        self.assertIn("NAN-0011", [lead["record"] for lead in found["leads"]])
        self.assertLessEqual(len(found["leads"]), 5)

    def test_the_shape_of_a_lead(self) -> None:
        lead = look_up(CODE)["leads"][0]
        self.assertEqual(
            list(lead),
            [
                *("record", "title", "score", "words", "why", "trap", "diagnoses"),
                *("parameters", "urls"),
            ],
        )
        self.assertEqual(set(lead["why"]), {"en", "zh"})
        self.assertTrue(lead["words"])

    def test_a_letter_alone_is_no_lead(self) -> None:
        self.assertEqual(self.leads("x\n\n" * 20), [])

    def test_operators_however_written(self) -> None:
        for name in ("F.kl_div(p, q)", "nn.KLDivLoss()(p, q)", "KL 散度 kl_div(p, q)"):
            with self.subTest(name):
                self.assertIn("NAN-0027", self.leads(f"loss = {name}")[:2])

    def test_what_made_a_printed_tensor_leads_to_its_records(self) -> None:
        rows = {
            "tensor([nan, nan, 0., 0.], grad_fn=<WhereBackward0>)": "NAN-0015",
            "tensor(nan, device='cuda:0', grad_fn=<NllLossBackward0>)": "NAN-0034",
        }
        for printed, record in rows.items():
            with self.subTest(printed):
                self.assertEqual(self.leads(printed)[:1], [record])
        # How tensors are printed is in every one of them.
        self.assertEqual(self.leads("tensor([nan, nan], requires_grad=True)"), [])

    def test_a_comparison_in_code_is_no_package(self) -> None:
        found = look_up("x = scores.masked_fill(mask == 0, -1e9)  # fp16")
        self.assertEqual(found["query"]["env"]["packages"], {})
        self.assertEqual(found["leads"][0]["record"], "NAN-0014")

    def test_words_behind_a_version_are_words(self) -> None:
        rows = {
            "pytorch 2.13.0 rrelu checkpoint nan": "NAN-0058",
            "torch==2.13.0 rrelu checkpoint nan": "NAN-0058",
            "torch 2.5.1: F.scaled_dot_product_attention(q) is 0 for NaN": "NAN-0009",
            "torch 2.12.1\nrrelu checkpoint 之后梯度是 nan": "NAN-0058",
        }
        for typed, record in rows.items():
            with self.subTest(typed):
                found = look_up(typed)
                self.assertEqual(found["leads"][0]["record"], record)
                self.assertIn(found["query"]["env"]["torch"]["raw"], typed)

    def test_a_title_that_is_one_name_hints_at_nothing(self) -> None:
        titles = [row["title"] for row in Record.objects.get(id="NAN-0017").sources]
        self.assertIn("F.scaled_dot_product_attention support", titles)
        found = look_up("INFO no F.scaled_dot_product_attention support here")
        self.assertEqual((found["outcome"], found["matches"]), ("none", []))

    def test_a_power_that_is_no_square_is_named(self) -> None:
        written = "gamma = 1 / 2.2\nloss = (x ** gamma).mean()\nloss.backward()"
        self.assertEqual(self.leads(written)[0], "NAN-0025")
        self.assertIn("NAN-0025", self.leads("y = (x ** k).sum()"))
        self.assertNotIn("NAN-0025", self.leads("y = (x ** 2).sum()"))

    def test_what_it_shares_is_said_in_words_of_the_pages_language(self) -> None:
        code = "x = torch.randn(8, requires_grad=True)\nx.sum().backward()\n"
        leads = look_up(code)["leads"]
        self.assertTrue(any(map(HAN_RUN.search, leads[0]["words"])), leads[0])
        for lead in leads:
            self.assertIsNone(HAN_RUN.search(lead["why"]["en"]), lead["record"])

    def test_words_of_either_language(self) -> None:
        self.assertEqual(self.leads("CTC 的损失变成 inf，标签比输入长")[0], "NAN-0033")
        self.assertEqual(
            self.leads("why is the ctc loss inf when the label is too long?")[0],
            "NAN-0033",
        )

    def test_words_are_not_lost_beside_a_metric(self) -> None:
        found = look_up("lora 微调时 loss 为 0 grad_norm nan，用了梯度检查点")
        known = [*found["matches"], *found["leads"]]
        self.assertIn("NAN-0002", [item["record"] for item in known[:3]])

    def test_a_match_is_no_lead(self) -> None:
        found = look_up(f"UserWarning: {WARNING}")
        self.assertEqual(found["matches"][0]["record"], "NAN-0002")
        self.assertNotIn("NAN-0002", [lead["record"] for lead in found["leads"]])

    def test_a_sure_answer_has_none_but_traps(self) -> None:
        words = "why is the ctc loss inf when the label is too long?"
        self.assertEqual(self.leads(words)[0], "NAN-0033")
        sure = look_up(f"UserWarning: {WARNING}\n\n{words}")
        self.assertEqual((sure["outcome"], sure["leads"]), ("exact", []))
        trapped = look_up(f"UserWarning: {WARNING}\n\n{TRAP}")
        (lead,) = trapped["leads"]
        self.assertEqual((trapped["outcome"], lead["record"]), ("exact", "NAN-0014"))
        self.assertEqual(lead["trap"]["rule"], "fill_below_float16")

    def test_prose_matches_word_for_word_only(self) -> None:
        told = look_up(f"I always get this: {WARNING} and I do not know why.")
        self.assertEqual(told["outcome"], "exact")
        near = look_up("I think that of my inputs some have requires_grad, why None?")
        self.assertEqual(near["outcome"], "none")

    def test_what_the_reader_says_counts(self) -> None:
        self.assertEqual(look_up(f"# {WARNING}\nx = f(y)")["outcome"], "none")
        read = look_up(f"# {WARNING}\nx = f(y)", parts=[Part(Kind.LOG, 1, 2)])
        self.assertEqual(read["matches"][0]["record"], "NAN-0002")
        self.assertEqual(
            read["query"]["parts"], [{"kind": "log", "first": 1, "last": 2}]
        )

    def test_a_message_of_many_causes_is_only_possible(self) -> None:
        found = look_up(f"RuntimeError: {SAMPLING}")
        self.assertEqual(found["outcome"], "possible")

    def test_the_code_that_decides_comes_along(self) -> None:
        with_code = [
            lead
            for lead in look_up("torch.where with sqrt has a NaN gradient")["leads"]
            if lead["diagnoses"]
        ]
        records = Record.objects.in_bulk([lead["record"] for lead in with_code])
        for lead in with_code:
            self.assertTrue(records[lead["record"]].diagnoses)
            self.assertIn("def diagnose_", lead["diagnoses"][0]["code"])

    def test_nothing_for_what_speaks_of_nothing(self) -> None:
        self.assertEqual(self.leads("qwerty zxcvb"), [])
        self.assertEqual(self.leads("torch==2.5.1\nnumpy==1.26.4"), [])
