"""What the engine sees of a program: imports, types, order, branches, contexts."""

from __future__ import annotations

from typing import Any

from django.test import SimpleTestCase

from kb.rules.findings import Finding, Unreadable, find, find_pasted, lines_of
from kb.rules.patterns import Rule

CHECKPOINT = {
    "event": ["torch.utils.checkpoint.checkpoint"],
    "with": {"use_reentrant": [{"given": False}, {"is": True}]},
}
FILL = {
    "event": [".masked_fill", "torch.masked_fill"],
    "with": {"input@0": {"dtype": ["float16"]}, "value@2": {"below": -65504}},
}
WHERE = {
    "event": ["torch.where"],
    "with": {
        "condition@0": {"from": [">"], "of": {"@0": {"same": "x"}}},
        "input@1": {"from": ["torch.log", ".log"], "of": {"input@0": {"same": "x"}}},
    },
    "outside": ["torch.no_grad"],
}
GENERATOR = [
    {
        "event": ["torch.optim.*", "[for]"],
        "with": {"@0": {"made_by": [".parameters"], "same": "p"}},
    },
    {
        "event": ["torch.nn.utils.clip_grad_norm_"],
        "with": {"parameters@0": {"same": "p"}},
    },
]
FIX = {"argument": "use_reentrant", "value": "False"}


def rule(*steps: dict[str, Any], **more: Any) -> Rule:
    words = {"en": "Said.", "zh": "说明。"}
    row = {"record": "NAN-0001", "name": "it", "severity": "warning", "message": words}
    return Rule({**row, "step": list(steps), **more})


def found(source: str, *steps: dict[str, Any], **more: Any) -> list[int]:
    """The lines at which a rule of these steps fires."""
    return [one.line for one in find(source, [rule(*steps, **more)])]


class NamesTest(SimpleTestCase):
    def test_however_it_was_imported(self) -> None:
        for source in (
            "from torch.utils.checkpoint import checkpoint\ncheckpoint(f, x)",
            "from torch.utils.checkpoint import checkpoint as c\nc(f, x)",
            "import torch.utils.checkpoint\ntorch.utils.checkpoint.checkpoint(f, x)",
            "from torch.utils import checkpoint as cp\ncp.checkpoint(f, x)",
        ):
            with self.subTest(source):
                self.assertEqual(found(source, CHECKPOINT), [2])

    def test_what_only_has_the_name_is_another_thing(self) -> None:
        for source in (
            "from mine import checkpoint\ncheckpoint(f, x)",
            "from .checkpoint import checkpoint\ncheckpoint(f, x)",
            "import os\n\ndef checkpoint(f, x):\n    return x\n\ncheckpoint(f, x)",
            "import torch\ncheckpoint(f, x)",
        ):
            with self.subTest(source):
                self.assertEqual(found(source, CHECKPOINT), [])

    def test_a_paste_without_imports_means_the_customary_ones(self) -> None:
        self.assertEqual(found("y = checkpoint(f, x)", CHECKPOINT), [1])
        indented = "    >>> y = checkpoint(f, x)\n    >>> z = y"
        console = [one.line for one in find_pasted(indented, [rule(CHECKPOINT)], 1000)]
        self.assertEqual(console, [1])
        prompt = ">>> y = 1\n>>> y = checkpoint(f, x)"
        pasted = [one.line for one in find_pasted(prompt, [rule(CHECKPOINT)], 1000)]
        self.assertEqual(pasted, [2])

    def test_a_star_alone_is_the_product(self) -> None:
        product = {"event": ["*"], "with": {"@0|@1": {"made_by": ["torch.rand"]}}}
        head = "import torch\nx = torch.rand(2)\n"
        for source in ("y = x * w", "y = w * x", "x *= w"):
            with self.subTest(source):
                self.assertEqual(found(head + source, product), [3])
        for source in ("y = x + w", "y = x ** w", "y = x.sum()", "y = f(x)"):
            with self.subTest(source):
                self.assertEqual(found(head + source, product), [])


class ArgumentsTest(SimpleTestCase):
    def call(self, arguments: str) -> list[int]:
        head = "from torch.utils.checkpoint import checkpoint\n"
        return found(f"{head}checkpoint({arguments})", CHECKPOINT)

    def test_what_is_given(self) -> None:
        self.assertEqual(self.call("f, x"), [2])
        self.assertEqual(self.call("f, x, use_reentrant=True"), [2])
        self.assertEqual(self.call("f, x, use_reentrant=False"), [])

    def test_what_cannot_be_seen_fulfils_nothing(self) -> None:
        self.assertEqual(self.call("f, x, use_reentrant=flag"), [])
        self.assertEqual(self.call("f, x, **options"), [])

    def test_a_dict_that_is_seen_counts(self) -> None:
        head = "from torch.utils.checkpoint import checkpoint\n"
        source = f"{head}o = {{'use_reentrant': False}}\ncheckpoint(f, x, **o)"
        self.assertEqual(found(source, CHECKPOINT), [])
        self.assertEqual(found(source.replace("False", "True"), CHECKPOINT), [3])


class TypesTest(SimpleTestCase):
    def filled(self, before: str) -> list[int]:
        return found(f"import torch\n{before}\ny = s.masked_fill(m, -1e9)", FILL)

    def test_types_by_assignment(self) -> None:
        for before in (
            "s = x.half()",
            "s = x.to(torch.float16)",
            "s = x.to(dtype=torch.half)",
            "s = torch.zeros(3, dtype=torch.float16).view(3, 1) / 2",
            "dtype = torch.float16; s = torch.zeros(3, dtype=dtype)",
        ):
            with self.subTest(before):
                self.assertEqual(self.filled(before), [3])

    def test_other_and_unknown_types(self) -> None:
        for before in (
            "s = x",
            "s = x.half().float()",
            "s = x.half().to(other.dtype)",
            "s = x.half() if flag else x",
            "s = x.half() + y",
        ):
            with self.subTest(before):
                self.assertEqual(self.filled(before), [])

    def test_a_model_is_changed_in_place(self) -> None:
        adam = {
            "event": ["torch.optim.Adam"],
            "with": {"params@0": {"dtype": ["bfloat16"]}},
        }
        source = (
            "import torch\n"
            "def train(net):\n"
            "    net.to(torch.bfloat16)\n"
            "    return torch.optim.Adam(net.parameters())\n"
        )
        self.assertEqual(found(source, adam), [4])
        self.assertEqual(
            found(source.replace("    net.to", "    y = net.to"), adam), []
        )

    def test_what_init_sets_is_known_in_methods(self) -> None:
        bce = {
            "event": ["torch.nn.BCELoss()"],
            "with": {"input@0": {"made_by": ["torch.sigmoid"]}},
        }
        source = (
            "import torch\nfrom torch import nn\n\n"
            "class Head(nn.Module):\n"
            "    def __init__(self):\n"
            "        self.loss = nn.BCELoss()\n\n"
            "    def forward(self, x, y):\n"
            "        p = torch.sigmoid(x)\n"
            "        return self.loss(p.squeeze(-1), y)\n"
        )
        self.assertEqual(found(source, bce), [10])


class OrderTest(SimpleTestCase):
    def test_the_same_object_in_two_steps(self) -> None:
        head = "import torch\nfrom torch.nn.utils import clip_grad_norm_\n"
        body = (
            "p = net.parameters()\no = torch.optim.SGD(p, lr=1)\nclip_grad_norm_(p, 1)"
        )
        self.assertEqual(found(head + body, *GENERATOR), [5])
        again = body.replace("clip_grad_norm_(p", "clip_grad_norm_(net.parameters()")
        self.assertEqual(found(head + again, *GENERATOR), [])
        listed = body.replace("net.parameters()", "list(net.parameters())")
        self.assertEqual(found(head + listed, *GENERATOR), [])

    def test_two_ways_of_a_branch_do_not_follow_each_other(self) -> None:
        source = (
            "import torch\n"
            "from torch.nn.utils import clip_grad_norm_\n"
            "def step(net, plain):\n"
            "    p = net.parameters()\n"
            "    if plain:\n"
            "        torch.optim.SGD(p, lr=1)\n"
            "        {}\n"
            "    else:\n"
            "        pass\n"
            "    clip_grad_norm_(p, 1)\n"
        )
        self.assertEqual(found(source.format("pass"), *GENERATOR), [10])
        self.assertEqual(found(source.format("return"), *GENERATOR), [])
        other = source.replace(
            "    else:\n        pass\n    clip", "    else:\n        clip"
        )
        self.assertEqual(found(other.format("pass"), *GENERATOR), [])

    def test_what_must_not_come_between_or_after(self) -> None:
        steps = ({"event": [".a"]}, {"event": [".b"], "without": [".c"]})
        self.assertEqual(found("x.a()\nx.b()", *steps), [2])
        self.assertEqual(found("x.a()\nx.c()\nx.b()", *steps), [])
        later = [{"event": [".d"]}]
        self.assertEqual(found("x.a()\nx.b()\nx.d()", *steps, unless=later), [])


class BranchTest(SimpleTestCase):
    def test_the_same_value_in_condition_and_branch(self) -> None:
        head = "import torch\ndef f(x, y):\n"
        for line, lines in (
            ("return torch.where(x > 0, torch.log(x), 0.0)", [3]),
            ("return torch.where(x > 0, 1 + y * x.log(), x)", [3]),
            ("return torch.where(x > 0, torch.log(x.clamp(min=1e-6)), x)", []),
            ("return torch.where(y > 0, torch.log(x), x)", []),
            ("with torch.no_grad(): return torch.where(x > 0, x.log(), x)", []),
        ):
            with self.subTest(line):
                self.assertEqual(found(f"{head}    {line}", WHERE), lines)
        decorated = (
            "@torch.no_grad()\ndef f(x):\n    return torch.where(x > 0, x.log(), x)"
        )
        self.assertEqual(found(f"import torch\n{decorated}", WHERE), [])

    def test_a_guard_around_the_call(self) -> None:
        drop = {
            "event": ["torch.dropout"],
            "with": {"@1": {"above": 0}},
            "unguarded": ["training"],
        }
        source = "import torch\n{}torch.dropout(x, 0.5)"
        self.assertEqual(found(source.format(""), drop), [2])
        self.assertEqual(found(source.format("if self.training:\n    "), drop), [])


class LimitsTest(SimpleTestCase):
    def test_a_hostile_source_ends(self) -> None:
        head = "import torch\nfrom torch.utils.checkpoint import checkpoint\n"
        fork = "\n".join(
            f"def f{n}(x):\n    return f{n + 1}(f{n + 1}(x))" for n in range(60)
        )
        nested = "x = " + "(" * 60 + "checkpoint(f, x)" + ")" * 60
        sums = "y = " + " + ".join(["x"] * 900)
        source = "\n".join((head, fork, "f0(1)", nested, sums))
        self.assertIsInstance(find(source, [rule(CHECKPOINT)], 20_000), list)
        with self.assertRaises(Unreadable):
            find("checkpoint(" + "[" * 5000, [rule(CHECKPOINT)])

    def test_large_constants_are_not_computed(self) -> None:
        source = "import torch\nn = 10 ** 10 ** 10 ** 10\nm = [0] * 64 * 64 * 64\n"
        self.assertEqual(found(source + "torch.masked_fill(n, m, -1e9)", FILL), [])


class CommentsAndFixesTest(SimpleTestCase):
    HEAD = "from torch.utils.checkpoint import checkpoint\n"

    def test_comments_set_a_line_aside(self) -> None:
        for comment, lines in (
            ("", [2]),
            ("  # doesitnan: ignore", []),
            ("  # doesitnan: ignore[NAN-0001]", []),
            ("  # doesitnan: ignore[NAN-0009, NAN-0001] why", []),
            ("  # doesitnan: ignore[NAN-0009]", [2]),
        ):
            with self.subTest(comment):
                source = f"{self.HEAD}checkpoint(f, x){comment}"
                self.assertEqual(found(source, CHECKPOINT), lines)

    def mended(self, call: str) -> str:
        source = f"{self.HEAD}y = {call}  # 注释\n"
        findings: list[Finding] = find(source, [rule(CHECKPOINT, fix=FIX)])
        (edit,) = [finding.edit for finding in findings if finding.edit]
        self.assertEqual((edit.line, edit.end_line), (2, 2))
        line = lines_of(source)[1]
        mended = line[: edit.column] + edit.text + line[edit.end_column :]
        return mended.removeprefix("y = ")

    def test_fixes(self) -> None:
        for call, wanted in (
            ("checkpoint(f, x)", "checkpoint(f, x, use_reentrant=False)  # 注释"),
            ("checkpoint(f, *x)", "checkpoint(f, *x, use_reentrant=False)  # 注释"),
            (
                "checkpoint(f, '输入', use_reentrant=True)",
                "checkpoint(f, '输入', use_reentrant=False)  # 注释",
            ),
        ):
            with self.subTest(call):
                self.assertEqual(self.mended(call), wanted)

    def test_places_are_in_characters(self) -> None:
        source = f"{self.HEAD}s = '输入'; checkpoint(f, x)\n"
        (one,) = find(source, [rule(CHECKPOINT)])
        self.assertEqual((one.column, one.end_column), (10, 26))
