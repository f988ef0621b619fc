"""Words that ask about an upgrade of torch, and words that only look so."""

from __future__ import annotations

from django.test import TestCase

from kb.findings import writing
from kb.releases import sides
from kb.releases.asked import MAX_WORDS, upgrade_in
from tests.kb.releases.test_comparison import finding
from tests.support import runs

ASKED = {
    "after upgrading from torch 2.5.1 to 2.13.0 the loss is nan": ("2.5.1", "2.13.0"),
    "loss goes nan after upgrading to torch 2.13": ("2.12.1", "2.13.0"),
    "Upgraded PyTorch 2.5.1 -> 2.13 and grads are nan": ("2.5.1", "2.13.0"),
    "从 torch 2.5.1 升级到 2.13 后 loss 变成 nan": ("2.5.1", "2.13.0"),
    "torch 从2.5.1换到2.12.1": ("2.5.1", "2.12.1"),
    "升级到 torch 2.13 之后 nan": ("2.12.1", "2.13.0"),
    "bump torch from 2.5.1+cpu to 2.13.0": ("2.5.1-cpu", "2.13.0"),
    "moving from 2.5.1 to 2.6.1 with torch": ("2.5.1", "2.6.1"),
    "upgrading from 2.5.1 to 2.13.0": ("2.5.1", "2.13.0"),
    "torch 2.5.1 → 2.13.0": ("2.5.1", "2.13.0"),
    "what changed between torch 2.5.1 and 2.13.0?": ("2.5.1", "2.13.0"),
    "torch 2.13 vs 2.5.1": ("2.5.1", "2.13.0"),
    "it worked on torch 2.5.1, on 2.13.0 the loss is nan": ("2.5.1", "2.13.0"),
    "loss is nan since torch 2.13.0, with 2.5.1 it was fine": ("2.5.1", "2.13.0"),
    "we go to pytorch 2.13 from 2.5.1 next week, safe?": ("2.5.1", "2.13.0"),
    "rolled back torch to 2.5.1 because 2.13.0 gave nan": ("2.13.0", "2.5.1"),
    "torch 2.5.1 和 2.13.0 有什么区别": ("2.5.1", "2.13.0"),
    "2.5.1 正常，换 2.13.0 就 nan": ("2.5.1", "2.13.0"),
    "把 PyTorch 由2.5.1升到2.13，梯度不对": ("2.5.1", "2.13.0"),
    "torch 2.13.0 训练出 nan，之前 2.5.1 没问题": ("2.5.1", "2.13.0"),
}
NOT_ASKED = (
    "torch==2.5.1",
    "torch 2.5.1 and numpy upgraded from 1.26 to 2.0",
    "升级 numpy 从 1.26 到 2.0，torch 2.5.1",
    "upgrading from 2.5.1 to 2.14.9",  # neither named as torch nor both run
    "torch==2.5.1\nsympy==1.13.1\nnan after an hour",
    "downgrading torch to 2.12.1 helps",
    "upgrading torch from 2.13.0 to 2.13.0",
    "torch 2.5.1 and torch 2.13.0 are what I run",
    "upgrading to torch 2.5.1",  # nothing was tested before it
    "upgrade torch from 1.2 to 1.3",  # neither was tested
    "upgrading torch from 2.5.1 to 2.13.0" + " x" * MAX_WORDS,
)


class AskedTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        record = runs.make_record()
        tested = ("2.5.1", "2.12.1", "2.13.0")
        writing.replace(record, [finding(record, name, True) for name in tested])

    def test_what_asks(self) -> None:
        for words, expected in ASKED.items():
            with self.subTest(words):
                found = upgrade_in(words)
                assert found
                self.assertEqual((found.before.name, found.after.name), expected)

    def test_what_does_not(self) -> None:
        for words in NOT_ASKED:
            with self.subTest(words[:60]):
                self.assertIsNone(upgrade_in(words))

    def test_the_page_of_a_look_up_leads_to_the_comparison(self) -> None:
        address = '"/en/compare/2.12.1...2.13.0/"'
        asking = {"log": "loss goes nan after upgrading to torch 2.13"}
        self.assertContains(self.client.post("/en/lookup/", asking), address)
        other = {"log": "loss goes nan on torch 2.13"}
        self.assertNotContains(self.client.post("/en/lookup/", other), address)


class SideTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        record = runs.make_record()
        rows = [finding(record, "2.13.0", True), finding(record, "2.5.1", True)]
        rows.append(finding(record, "2.13.0", True, local="cu130"))
        writing.replace(record, rows)

    def test_what_a_text_names(self) -> None:
        both = ("2.13.0-cpu", "2.13.0-cu130")
        rows = {
            "2.13.0": ("2.13.0", both),
            "2.13": ("2.13.0", both),
            "2.13.x": ("2.13.0", both),
            "torch==2.13.0": ("2.13.0", both),
            "v2.13.0": ("2.13.0", both),
            "2.13.0+cpu": ("2.13.0-cpu", both[:1]),
            "2.13.0-cu130": ("2.13.0-cu130", both[1:]),
            "2.6.0": ("2.6.0", ()),
            "2.6": ("2.6.0", ()),
        }
        for text, expected in rows.items():
            with self.subTest(text):
                side = sides.find(text)
                assert side
                self.assertEqual((side.name, side.builds), expected)

    def test_what_names_nothing(self) -> None:
        for text in ("", "x", "2..5", "numpy 2.0", "2.6.0a0+git123abcd", "9" * 500):
            with self.subTest(text[:20]):
                self.assertIsNone(sides.find(text))
