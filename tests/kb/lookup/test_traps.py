"""Pasted code in which a rule fires: a lead with what the rule says, and no match."""

from django.test import TestCase

from kb.lookup.answer import look_up
from kb.models import Record
from tests.support import loaded

CODE = """import torch
from torch.utils.checkpoint import checkpoint

class Net(torch.nn.Module):
    def forward(self, x):
        scores = self.query(x).half()
        scores = scores.masked_fill(self.hidden, -1e9)
        return checkpoint(self.block, scores)
"""
PIECES = """Why is my loss nan?

loss = torch.where(x > 0, torch.log(x), torch.zeros_like(x)).mean()
loss.backward()

and it happens only with some batches
"""
MATCHING = """None of the inputs have requires_grad=True. Gradients will be None

from torch.utils.checkpoint import checkpoint
y = checkpoint(block, x)
"""


class TrapTests(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def test_code_with_traps(self) -> None:
        found = look_up(CODE)
        self.assertEqual((found["outcome"], found["matches"]), ("none", []))
        first, second = found["leads"][:2]
        self.assertEqual([first["record"], second["record"]], ["NAN-0014", "NAN-0002"])
        self.assertEqual(
            first["trap"],
            {
                "rule": "fill_below_float16",
                "severity": "error",
                "line": 7,
                "pasted": "scores = scores.masked_fill(self.hidden, -1e9)",
            },
        )
        self.assertTrue(first["why"]["en"].startswith("float16 ends at 65504"))
        self.assertIn("65504", first["why"]["zh"])
        ids = [lead["record"] for lead in found["leads"]]
        self.assertEqual(len(ids), len(set(ids)))

    def test_code_without_a_trap(self) -> None:
        clean = CODE.replace("-1e9", "-1e4").replace(
            "scores)", "x, use_reentrant=False)"
        )
        for lead in look_up(clean)["leads"]:
            self.assertIsNone(lead["trap"])

    def test_lines_between_words(self) -> None:
        (lead,) = [x for x in look_up(PIECES)["leads"] if x["record"] == "NAN-0015"]
        self.assertEqual(lead["trap"]["line"], 3)

    def test_a_record_that_matches_is_no_lead(self) -> None:
        found = look_up(MATCHING)
        self.assertIn("NAN-0002", [match["record"] for match in found["matches"]])
        self.assertNotIn("NAN-0002", [lead["record"] for lead in found["leads"]])

    def test_records_that_nobody_sees_say_nothing(self) -> None:
        Record.objects.filter(id="NAN-0014").update(publication="withdrawn")
        ids = [lead["record"] for lead in look_up(CODE)["leads"] if lead["trap"]]
        self.assertEqual(ids, ["NAN-0002"])

    def test_the_page_shows_the_line(self) -> None:
        response = self.client.post("/en/lookup/", {"log": CODE})
        self.assertContains(response, "Your code, line 7:")
        self.assertContains(
            response, "<code>scores = scores.masked_fill(self.hidden, -1e9)</code>"
        )
        chinese = self.client.post("/zh/lookup/", {"log": CODE})
        self.assertContains(chinese, "你的代码第 7 行：")

    def test_the_api_gives_it(self) -> None:
        answer = self.client.post(
            "/api/v1/lookup", {"log": CODE}, content_type="application/json"
        )
        self.assertEqual(answer.json()["leads"][0]["trap"]["line"], 7)
