"""What a paste states of a run: read outright or not at all, and only if allowed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from django.test import SimpleTestCase, TestCase

from kb.choices import PARAMETERS
from kb.lookup import parameters
from kb.lookup.answer import look_up
from kb.models import Repro
from kb.search.reading.values import NAME_OF, SIGNS, stated_in
from portable import harness
from tests.support import loaded, runs

SDPA = """import torch
q = torch.randn(2, 8, 512, 64, dtype=torch.bfloat16)
k = torch.randn(2, 8, 512, 64, dtype=torch.bfloat16)
mask = torch.zeros(512, 512, dtype=torch.bool)  # torch.randn(1, 1, 9, 9)
out = torch.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=mask)
print(out.isnan().any())  # True, since every row of the mask is fully masked
"""
TENSOR = "tensor([[0., nan]], device='cuda:0',\n       dtype=torch.bfloat16)"
ALIKE = {"dtype": "bfloat16", "batch": 2, "heads": 8, "length": 512, "head_dim": 64}


class StatedTests(SimpleTestCase):
    def test_what_a_line_states(self) -> None:
        rows: dict[str, list[tuple[str, Any]]] = {
            "       [nan, 1.]], dtype=torch.bfloat16)": [("dtype", "bfloat16")],
            "model.to('cuda', torch.float16)": [("dtype", "float16")],
            "y = model(x.half())": [("dtype", "float16")],
            "bf16: true": [("dtype", "bfloat16")],
            '"fp16": {"enabled": true},': [("dtype", "float16")],
            "torchrun train.py --bf16 --num_heads 8": [
                *(("dtype", "bfloat16"), ("heads", 8)),
            ],
            "TrainingArguments(bf16=False, fp16=True)": [("dtype", "float16")],
            'Trainer(precision="bf16-mixed")': [("dtype", "bfloat16")],
            '"torch_dtype": "float64",': [("dtype", "float64")],
            "per_device_train_batch_size: 4": [("batch", 4)],
            "--max-seq-length=2048 \\": [("length", 2048)],
            "head_dim: int = 64": [("head_dim", 64)],
            "learning_rate: 1.0e-4": [("lr", 1e-4)],
            "x = torch.randn(2, 8, 512, 64, device='cuda')": [
                ("shape", (2, 8, 512, 64)),
            ],
            "ids = torch.randint(0, 9, (4, 16))": [("shape", (4, 16))],
            "q.shape: torch.Size([2, 8, 512, 64])": [("shape", (2, 8, 512, 64))],
        }  # fmt: skip
        for line, expected in rows.items():
            with self.subTest(line):
                found = [(one.name, one.value) for one in stated_in([(7, line)])]
                self.assertEqual(found, expected)
                self.assertEqual({one.line for one in stated_in([(7, line)])}, {7})

    def test_what_a_line_leaves_open(self) -> None:
        for line in (
            "bf16: false",
            "--fp16 false",
            "--fp16_opt_level O2",
            "dtype=dtype",
            "x = torch.randn(2, 8, length, 64)",
            "batch_size = 8 * gpus",
            "batch_size=batch_size",
            "max_seq_length: 2,048",
            "eval_batch_size: 8",
            "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4e-05}",
            "size mismatch: torch.Size([2, 3]) and torch.Size([4, 5])",
            "expected scalar type Half but found Float",
        ):
            with self.subTest(line):
                self.assertEqual(stated_in([(1, line)]), [])

    def test_every_spelling_has_a_sign(self) -> None:
        for spelling, name in NAME_OF.items():
            with self.subTest(spelling):
                self.assertTrue(any(sign in spelling for sign in SIGNS))
                self.assertIn(name, PARAMETERS)
        axes = {name for shape in parameters.AXES for name in shape}
        self.assertLessEqual(axes, set(PARAMETERS))


class SuggestedTests(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def of(self, record: str, log: str, env: str = "") -> list[Any]:
        found = look_up(log, env)
        items = {item["record"]: item for item in found["candidates"]}
        return list(items[record]["parameters"])

    def test_a_candidate_gets_dtype_and_shapes_with_their_lines(self) -> None:
        (found,) = self.of("NAN-0008", SDPA)
        self.assertEqual((found["repro"], found["values"]), ("repro", ALIKE))
        self.assertEqual({read["line"] for read in found["read"]}, {2})
        first = found["read"][0]
        self.assertEqual(first["pasted"], SDPA.splitlines()[1])
        self.assertEqual(first["box"], "log")

    def test_what_is_suggested_can_be_run(self) -> None:
        """The harness takes it as it is, and finds in it what the paste has."""
        (found,) = self.of("NAN-0008", SDPA)
        source = Repro.objects.get(record="NAN-0008").source
        chosen = harness.choose(harness.parse_header(source), found["values"])
        self.assertEqual({**chosen, **ALIKE}, ALIKE)

    def test_two_values_are_none(self) -> None:
        other = SDPA.replace("k = torch.randn(2, 8, 512", "k = torch.randn(2, 8, 9")
        (found,) = self.of("NAN-0008", other)
        self.assertNotIn("length", found["values"])
        self.assertEqual(found["values"]["heads"], 8)
        other = SDPA.replace("64, dtype=torch.bfloat16", "64, dtype=torch.float64", 1)
        (found,) = self.of("NAN-0008", other)
        self.assertNotIn("dtype", found["values"])

    def test_what_the_declaration_refuses_is_left_out(self) -> None:
        (found,) = self.of("NAN-0008", SDPA.replace("bfloat16", "float16"))
        self.assertNotIn("dtype", found["values"])
        (found,) = self.of("NAN-0008", SDPA.replace("512", "4096"))
        self.assertEqual(set(found["values"]), ALIKE.keys() - {"length"})

    def test_values_that_are_too_much_together_are_left_out(self) -> None:
        (found,) = self.of("NAN-0008", SDPA.replace("2, 8, 512", "256, 64, 1024"))
        self.assertEqual(found["values"], {"dtype": "bfloat16", "head_dim": 64})

    def test_the_environment_states_values_too(self) -> None:
        env = "torch==2.6.0\n\nmixed_precision: bf16"
        line = (
            "RuntimeError: value cannot be converted to type at::Half without overflow"
        )
        found = look_up(line + "\nper_device_train_batch_size: 4", env)
        read = [
            (one["name"], one["box"], one["line"])
            for item in found["candidates"]
            for repro in item["parameters"]
            for one in repro["read"]
        ]
        self.assertIn(("dtype", "env", 3), read)

    def test_words_state_nothing(self) -> None:
        found = look_up(
            "why is my attention nan when I set bf16=True and it is masked?"
        )
        items = found["candidates"]
        self.assertTrue(items)
        self.assertEqual([item["parameters"] for item in items], [[]] * len(items))

    def test_bounds_are_those_of_the_harness(self) -> None:
        formulas = 0
        for repro in Repro.objects.all():
            header = repro.header
            values = {
                name: one["default"] for name, one in header["parameters"].items()
            }
            for formula in header["bounds"].values():
                formulas += 1
                self.assertEqual(
                    parameters.needed(formula, values), harness.amount(formula, values)
                )
        self.assertGreater(formulas, 10)


class PageTests(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        runs.install(runs.stand_in_torch(folder))

    def test_from_the_answer_to_the_run_form(self) -> None:
        page = self.client.post("/en/lookup/", {"log": SDPA, "env": "torch==2.4.1"})
        self.assertContains(page, "Read from your paste:")
        self.assertContains(page, "Run the repro with these values")
        (shown,) = [
            one
            for one in page.context["page"].candidates
            if one.found["record"] == "NAN-0008"
        ]
        self.assertEqual(
            shown.values.query,
            "?torch=2.4.1&batch=2&dtype=bfloat16&head_dim=64&heads=8&length=512"
            "&pasted=batch,dtype,head_dim,heads,length",
        )
        path = shown.url
        form = self.client.get(path)
        self.assertContains(form, "read from your paste: 512")
        self.assertContains(form, "read from your paste: bfloat16")
        chinese = self.client.get(path.replace("/en/", "/zh/"))
        self.assertContains(chinese, "读自你粘贴的内容：512")

    def test_an_address_alone_is_no_paste(self) -> None:
        path = "/en/NAN-0008/sdpa-fully-masked-row-nan/"
        read = self.client.get(f"{path}?length=512&pasted=length")
        self.assertContains(read, "read from your")
        for query in ("?length=512", "?length=512&pasted=dtype", "?pasted=length"):
            with self.subTest(query):
                self.assertNotContains(self.client.get(path + query), "read from your")
