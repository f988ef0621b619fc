"""The parts of a paste: what each line is, and what code names."""

from unittest import mock

from django.test import SimpleTestCase

from kb.search.reading import symptom_facets
from kb.search.reading.cleaning import CleanLines
from kb.search.reading.code import names_of_code
from kb.search.reading.glossary import MEANINGS
from kb.search.reading.lines import select_lines
from kb.search.reading.log import read_lines
from kb.search.reading.names import names_in, operator_name
from kb.search.reading.parts import Part, corrected, split_parts

CODE = """import torch
from torch import nn

class Head(nn.Module):
    def forward(self, hidden):
        # the mean over time
        pooled = hidden.mean(
            dim=1,
            keepdim=True,
        )

        return pooled / pooled.norm()
"""
TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    loss.backward()
  File "/x/torch/_tensor.py", line 521, in backward
    torch.autograd.backward(
RuntimeError: something went wrong
"""
METRICS = "{'loss': 2.5, 'grad_norm': nan}\n{'loss': 0.0, 'grad_norm': nan}"
WORDS = "I changed the batch size, and since then my run behaves differently. Why?"
CONFIG = "optimizer:\n  name: adamw\n  lr: 1e-4\nprecision: bf16"
PRINTED = "tensor([[0.1, nan],\n        [0.2, 0.3]], grad_fn=<AddBackward0>)"
SHARDED = (
    "total_norm=DTensor(local_tensor=482.08, device_mesh=DeviceMesh([0, 1]), "
    "placements=(_NormPartial(reduce_op='sum', norm_type=2.0),))"
)
LIST = "torch==2.5.1\nnumpy==1.26.4\n- Transformers: 4.50.0"
LOG = (
    "2025-01-01 10:00:00 INFO starting\n"
    "/x/torch/nn/f.py:10: UserWarning: a size that differs from the input's\n"
    "[rank1]: connected to the store"
)


def parts_of(text: str) -> list[tuple[str, int, int]]:
    lines = list(enumerate(text.split("\n"), start=1))
    return [(part.kind.value, part.first, part.last) for part in split_parts(lines)]


def kinds(text: str) -> list[str]:
    return [kind for kind, _first, _last in parts_of(text)]


class PartsTests(SimpleTestCase):
    def test_each_kind_alone(self) -> None:
        for kind, text in (
            ("code", CODE),
            ("traceback", TRACEBACK),
            ("metrics", METRICS),
            ("words", WORDS),
            ("words", "梯度为什么变成 nan？训练了三步之后就这样了。"),
            ("words", "学习率 0.1，到第 3 个 epoch loss 从 2 涨到 1e8 然后 nan"),
            ("config", CONFIG),
            ("config", '"zero_stage": 2,\n"fp16": true'),
            ("config", "torchrun train.py --bf16 --lr 1e-5"),
            ("tensor", PRINTED),
            ("tensor", SHARDED),
            ("traceback", TRACEBACK.replace("<module>\n", "<module>\n\n")),
            ("environment", LIST),
            ("log", LOG),
            ("code", ">>> x = torch.zeros(3)\n>>> x.log()"),
            ("code", "loss = criterion(output, labels)"),
            ("code", "y = torch.where(mask, a / b, a)"),
        ):
            with self.subTest(text[:40]):
                self.assertEqual(set(kinds(text)), {kind})

    def test_together(self) -> None:
        text = "\n\n".join([WORDS, CODE, TRACEBACK, METRICS, LIST])
        self.assertEqual(
            kinds(text), ["words", "code", "traceback", "metrics", "environment"]
        )

    def test_lines_are_counted_from_one_and_blank_ones_end_no_part(self) -> None:
        self.assertEqual(parts_of(CODE), [("code", 1, 12)])
        self.assertEqual(
            parts_of(f"\n{WORDS}\n\n{METRICS}"), [("words", 2, 2), ("metrics", 4, 5)]
        )

    def test_a_message_is_no_sentence(self) -> None:
        for text in (
            "RuntimeError: it is not possible to do this with the given tensor",
            "[rank0]: None of the inputs have the flag, and they will be skipped",
            "Gradient overflow. Skipping step, loss scaler reducing scale to 1024",
            "warning: loss is nan",
        ):
            with self.subTest(text):
                self.assertNotIn(kinds(text)[0], ("words", "code", "config"))

    def test_a_reader_says_what_a_part_is(self) -> None:
        parts = [Part("log", 1, 3), Part("code", 4, 9)]  # type: ignore[arg-type]
        said = [Part("words", 4, 9), Part("log", 4, 8)]  # type: ignore[arg-type]
        self.assertEqual(
            [part.kind for part in corrected(parts, said)], ["log", "words"]
        )

    def test_many_small_parts_are_a_log(self) -> None:
        text = "\n".join([WORDS, METRICS] * 200)
        self.assertLessEqual(len(parts_of(text)), 61)
        self.assertEqual(parts_of(text)[-1][2], 600)


class NameTests(SimpleTestCase):
    def test_one_name_however_written(self) -> None:
        for names in (
            ["F.cross_entropy", "torch.nn.functional.cross_entropy"],
            ["nn.CrossEntropyLoss", "CrossEntropyLoss", "cross_entropy"],
            ["masked_fill", "masked_fill_", "Tensor.masked_fill_"],
            ["nn.KLDivLoss", "F.kl_div"],
            ["nn.ReLU", "F.relu_"],
            ["nn.RReLU", "F.rrelu"],
            ["nn.LeakyReLU", "F.leaky_relu"],
            ["nn.SiLU", "F.silu"],
            ["nn.LogSigmoid", "F.logsigmoid"],
            ["src_key_padding_mask", "key_padding_mask"],
            ["SqrtBackward0", "torch.sqrt"],
            ["nn.MultiheadAttention", "F.multi_head_attention_forward"],
        ):
            with self.subTest(names):
                self.assertEqual(len({operator_name(name) for name in names}), 1)

    def test_prose_names_nothing(self) -> None:
        self.assertEqual(list(names_in("the loss is nan after the first step")), [])
        self.assertEqual(
            list(names_in("it calls torch.where and softmax(x)")),
            ["op:where", "op:softmax"],
        )
        # The ellipsis is three characters once it is folded.
        self.assertEqual(list(names_in("… then softmax(x) and exp")), ["op:softmax"])

    def test_imports_are_resolved(self) -> None:
        names = names_of_code(
            "from torch import logsumexp as total\n"
            "def where(x): return x\n"
            "y = total(where(x))  # torch.acos(x)\n"
            "print('F.softmax(x)')\n"
        )
        self.assertIn("op:logsumexp", names)
        self.assertNotIn("op:where", names)
        self.assertNotIn("op:acos", names)
        self.assertNotIn("op:softmax", names)

    def test_what_the_piece_makes_itself_is_no_operator(self) -> None:
        names = names_of_code(
            "y_pred = net(x)\nself.layer = nn.Linear(1, 1)\n"
            "attn_mask = ones\nflex_attention = torch.compile(flex_attention)\n"
            "y_pred + self.layer + F.sdpa(q, attn_mask=attn_mask)\n"
        )
        for name, is_named in (
            *(("y_pred", False), ("layer", False)),
            *(("attn_mask", True), ("flex_attention", True)),
        ):
            self.assertEqual(f"op:{name}" in names, is_named, name)

    def test_what_is_cut_off_is_read_as_far_as_it_goes(self) -> None:
        self.assertIn("op:acos", names_of_code("t = torch.acos(\n    cos[0"))
        self.assertEqual(names_of_code("'''"), [])


class MeaningsTests(SimpleTestCase):
    def test_every_group_has_a_reason(self) -> None:
        for group in (*MEANINGS["group"], *MEANINGS["operators"]):
            self.assertGreater(len(group["why"]), 20)
        for entry in MEANINGS["symptom"]:
            self.assertEqual(set(entry["why"]), {"en", "zh"})


class OnceTest(SimpleTestCase):
    def test_metrics_of_a_line_are_read_once_for_parts_and_log(self) -> None:
        lines = select_lines("\n".join(f"step {n} | loss: nan" for n in range(50)))
        cleaned = CleanLines()
        real = symptom_facets.metrics_in
        with mock.patch.object(symptom_facets, "metrics_in", side_effect=real) as read:
            (part,) = split_parts(lines.lines, cleaned)
            reading = read_lines(lines, cleaned)
        self.assertEqual((part.kind, list(reading.facets)), ("metrics", ["loss_nan"]))
        self.assertEqual(read.call_count, 50)
