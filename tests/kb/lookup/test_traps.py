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
SCALED = """训练到一半 loss 突然变成 nan，用的是 fp16 混合精度，学习率 1e-4，resnet50

scaler.scale(loss).backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
"""
MATCHING = """None of the inputs have requires_grad=True. Gradients will be None

from torch.utils.checkpoint import checkpoint
y = checkpoint(block, x)
"""


class TrapTests(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def trapped(self, log: str) -> dict[str, dict[str, str]]:
        """Record -> the reason that names a line of the code."""
        return {
            row["record"]: reason
            for row in look_up(log)["candidates"]
            for reason in row["because"]
            if "of your code" in reason["en"]
        }

    def test_code_is_read_as_people_paste_it(self) -> None:
        lines = CODE.splitlines()
        for name, pasted in {
            "quoted": [f"> {line}" for line in lines],
            "a session": [
                f"{'...' if line[:1] in ('', ' ') else '>>>'} {line}" for line in lines
            ],
            "cells": ["In [3]: import torch", *(f"   ...: {x}" for x in lines[1:])],
            "wide": [line.replace(", ", "\uff0c") for line in lines],
            "numbered": [f"{at:3}  {line}" for at, line in enumerate(lines, 98)],
            "numbered with a colon": [f"{at}: {x}" for at, x in enumerate(lines, 1)],
            "numbered, blanks lost": [
                f"{at} {line}".rstrip() for at, line in enumerate(lines, 1)
            ],
            "added": [f"+{line}" for line in lines],
            "a diff": [f"{'+' if 'half' in x else ' '}{x}" for x in lines[5:]],
            "a table": [f"| {line} |" for line in lines],
        }.items():
            before = [] if len(pasted) == len(lines) else ["@@ -9 +9 @@"] * 5
            first = look_up("\n".join([*before, *pasted]))["candidates"][0]
            found = (first["record"], first["lines"])
            self.assertEqual(found, ("NAN-0014", [7]), name)

    def test_a_line_that_a_diff_removes_is_no_trap(self) -> None:
        masked = "        scores = scores.masked_fill(self.hidden, -1e9)"
        diff = [f" {line}" for line in CODE.splitlines()]
        diff[6:7] = [f"-{masked}", f"+{masked.replace('-1e9', '-1e4')}"]
        self.assertNotIn("NAN-0014", self.trapped("\n".join(diff)))

    def test_code_with_traps(self) -> None:
        found = look_up(CODE)
        self.assertEqual(found["outcome"], "possible")
        first = found["candidates"][0]
        self.assertEqual((first["record"], first["lines"]), ("NAN-0014", [7]))
        said = self.trapped(CODE)
        self.assertEqual(set(said), {"NAN-0014", "NAN-0002"})
        self.assertIn("line 7 of your code: float16 ends", said["NAN-0014"]["en"])
        self.assertIn("65504", said["NAN-0014"]["zh"])

    def test_code_without_a_trap(self) -> None:
        clean = CODE.replace("-1e9", "-1e4").replace(
            "scores)", "x, use_reentrant=False)"
        )
        self.assertEqual(self.trapped(clean), {})

    def test_a_trap_of_another_symptom_stands_before_what_is_not_told(self) -> None:
        said = self.trapped(SCALED)
        self.assertIn("line 4 of your code", said["NAN-0093"]["en"])
        ids = [row["record"] for row in look_up(SCALED)["candidates"]]
        self.assertEqual((ids[0], ids[-1], len(ids)), ("NAN-0091", "NAN-0093", 3))

    def test_lines_between_words(self) -> None:
        self.assertIn("line 3 of your code", self.trapped(PIECES)["NAN-0015"]["en"])

    def test_a_record_that_matches_stands_there_once(self) -> None:
        ids = [row["record"] for row in look_up(MATCHING)["candidates"]]
        self.assertEqual(ids[0], "NAN-0002")
        self.assertEqual(len(ids), len(set(ids)))

    def test_records_that_nobody_sees_say_nothing(self) -> None:
        Record.objects.filter(id="NAN-0014").update(publication="withdrawn")
        self.assertEqual(set(self.trapped(CODE)), {"NAN-0002"})

    def test_the_page_shows_the_line(self) -> None:
        response = self.client.post("/en/lookup/", {"log": CODE})
        self.assertContains(response, "line 7 of your code:")
        chinese = self.client.post("/zh/lookup/", {"log": CODE})
        self.assertContains(chinese, "代码第 7 行：")
