"""nan_probe.py on toy models under a real torch, and its report in the look-up box."""

from __future__ import annotations

import ast
import json
import subprocess
from functools import cache
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase, TestCase

from kb.environments.environment import find_environment
from kb.lookup.answer import look_up
from kb.lookup.paste import kinds_of, read_paste, readable
from tests.support import loaded
from tests.support.builds import torch_python
from tests.support.log_corpus import read_log

PROBE = Path(settings.BASE_DIR) / "static" / "nan_probe.py"
# Prints {name of a toy: the probe's report} as JSON.
TOYS = """
import io, json, sys
sys.path.insert(0, sys.argv[1])
import torch
from torch import nn
from nan_probe import NanProbe

class Distance(nn.Module):
    def forward(self, a, b):
        return ((a - b) * 0 * a).sum(-1).sqrt() * 0

class Siamese(nn.Module):
    '''The gradient of the distance of equal points is 0/0.'''
    def __init__(self):
        super().__init__()
        self.embed, self.distance = nn.Linear(4, 3), Distance()
    def forward(self, a, b):
        return self.distance(self.embed(a), self.embed(b))

class Attention(nn.Module):
    def forward(self, q, mask):
        scores = (q @ q.transpose(-1, -2)).masked_fill(mask, float("-inf"))
        return torch.softmax(scores, -1) @ q

class Masked(nn.Module):
    '''A row without an open position; dropout draws random numbers on the way.'''
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.layers = nn.ModuleList([Attention(), Attention()])
        self.register_buffer("seen", torch.zeros(()))
    def forward(self, x, mask):
        self.seen += 1
        for layer in self.layers:
            x = layer(self.drop(x), mask)
        return x

class Ffn(nn.Module):
    '''bfloat16 holds 1e38, not ten times that.'''
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 2)
    def forward(self, x):
        h = self.up(x).abs().bfloat16() + 1
        return self.down((h * 1e38 * 1e38).float())

class Flaky(nn.Module):
    '''Bad in its first call only, whatever goes in.'''
    calls = 0
    def forward(self, x):
        Flaky.calls += 1
        return x * (float("nan") if Flaky.calls == 1 else 1.0)

def report(model, loss, **options):
    out = io.StringIO()
    probe = NanProbe(model, file=out, **options)
    probe.step(loss)
    probe.step(loss)
    return out.getvalue()

torch.manual_seed(0)
ones, found = torch.ones(2, 4), {}
siamese, masked, ffn, flaky = Siamese(), Masked(), Ffn(), nn.Sequential(Flaky())
open_ = torch.zeros(3, 3, dtype=torch.bool)
shut = open_.clone(); shut[2] = True
x = torch.randn(2, 3, 4, requires_grad=True)
found["backward"] = report(siamese, lambda: siamese(ones, ones).sum())
found["forward"] = report(masked, lambda: masked(x, shut).sum())
found["buffer"] = str(float(masked.seen))
found["overflow"] = report(ffn, lambda: ffn(ones).sum())
found["flaky"] = report(flaky, lambda: flaky(x).sum())
found["healthy"] = report(masked, lambda: masked(x, open_).sum())
found["not repeated"] = report(ffn, lambda: ffn(ones).sum(), rerun=False)
found["batch"] = report(ffn, lambda: ffn(ones * float("nan")).sum())
with torch.no_grad():
    ffn.down.bias[0] = float("nan")
found["parameter"] = report(ffn, lambda: ffn(ones).sum())
before = torch.get_rng_state()
report(masked, lambda: masked(x, shut).sum())
after = torch.get_rng_state()
torch.set_rng_state(before)
for _ in range(2):
    masked(x, shut)
found["random"] = str(bool(torch.equal(after, torch.get_rng_state())))
found["grads"] = str(all(p.grad is not None for p in siamese.parameters()))
print(json.dumps(found))
"""


@cache
def reports() -> dict[str, str]:
    done = subprocess.run(
        [torch_python(), "-c", TOYS, str(PROBE.parent)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def row(report: str, name: str) -> str:
    """What the report says of `name`."""
    (value,) = [
        line.split(": ", 1)[1]
        for line in report.splitlines()
        if line.startswith(f"  {name}: ")
    ]
    return value


class ProbeTests(SimpleTestCase):
    def test_the_first_bad_gradient(self) -> None:
        report = reports()["backward"]
        self.assertEqual(row(report, "direction"), "backward")
        self.assertEqual(row(report, "module"), "distance (Distance)")
        self.assertEqual(row(report, "op"), "SqrtBackward0")
        self.assertEqual(row(report, "dtype"), "torch.float32")
        self.assertEqual(row(report, "shape"), "[2]")
        self.assertTrue(row(report, "value").startswith("nan 2, inf 0 of 2"))
        self.assertTrue(row(report, "rerun").startswith("same"))

    def test_the_first_bad_value_of_a_forward_pass(self) -> None:
        report = reports()["forward"]
        self.assertEqual(row(report, "direction"), "forward")
        self.assertEqual(row(report, "module"), "layers.0 (Attention)")
        self.assertTrue(row(report, "op").startswith("aten._softmax"), report)
        self.assertEqual(row(report, "shape"), "[2, 3, 3]")
        self.assertTrue(row(report, "value").startswith("nan 6, inf 0 of 18"))

    def test_overflow_names_the_type(self) -> None:
        report = reports()["overflow"]
        self.assertEqual(row(report, "dtype"), "torch.bfloat16")
        self.assertTrue(row(report, "op").startswith("aten.mul"), report)
        self.assertEqual(row(report, "module"), "the model itself (Ffn)")
        self.assertTrue(row(report, "value").startswith("nan 0, inf 8 of 8"))

    def test_a_rerun_with_the_same_inputs_and_random_numbers(self) -> None:
        self.assertTrue(row(reports()["forward"], "rerun").startswith("same"))
        self.assertTrue(row(reports()["flaky"], "rerun").startswith("differs"))
        self.assertIn("suspect the node", row(reports()["flaky"], "rerun"))
        self.assertTrue(row(reports()["not repeated"], "rerun").startswith("not tried"))

    def test_what_was_bad_before(self) -> None:
        self.assertIn("batch", row(reports()["batch"], "module"))
        self.assertEqual(row(reports()["parameter"], "module"), "down.bias")
        self.assertEqual(row(reports()["parameter"], "direction"), "before the step")

    def test_a_healthy_step_says_nothing(self) -> None:
        self.assertEqual(reports()["healthy"], "")

    def test_the_program_goes_on_as_without_the_probe(self) -> None:
        # Two steps, two calls seen: the repeats have left no trace.
        self.assertEqual(reports()["buffer"], "2.0")
        self.assertEqual(reports()["random"], "True")
        self.assertEqual(reports()["grads"], "True")

    def test_one_report_a_run(self) -> None:
        self.assertEqual(reports()["forward"].count("nan_probe 1:"), 1)

    def test_it_needs_nothing_but_torch(self) -> None:
        tree = ast.parse(PROBE.read_text(), feature_version=(3, 8))
        imported = {
            name.partition(".")[0]
            for node in ast.walk(tree)
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        self.assertEqual(imported, {"__future__", "os", "sys", "torch"})


class PasteTests(TestCase):
    """The report is a paste that the box understands."""

    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def test_what_it_is_taken_for(self) -> None:
        for name in ("backward", "forward", "overflow", "flaky", "parameter"):
            with self.subTest(name):
                self.assertEqual(
                    kinds_of(read_paste(readable(reports()[name]))), ["nan_probe"]
                )

    def test_facets(self) -> None:
        for name, expected in {
            "backward": {"nan_in_SqrtBackward", "probe_backward", "dtype_float32"},
            "overflow": {"probe_forward", "dtype_bfloat16", "rerun_same"},
            "flaky": {"rerun_differs"},
        }.items():
            with self.subTest(name):
                facets = set(read_log(reports()[name]).facets)
                self.assertLessEqual(expected, facets)

    def test_the_build_is_read(self) -> None:
        self.assertTrue(find_environment(reports()["backward"]).torch_raw)

    def test_a_backward_op_is_matched_as_autograd_words_it(self) -> None:
        prefixed = "".join(
            f"[rank2]: {line}\n" for line in reports()["backward"].splitlines()
        )
        for text in (reports()["backward"], prefixed):
            found = look_up(f"step 0 loss 1.3\n{text}")
            self.assertEqual(found["outcome"], "exact")
            slug = found["matches"][0]["urls"]["html"]["en"]
            self.assertIn("sqrt-at-zero-nan-grad", slug)

    def test_an_overflow_is_not_called_nan(self) -> None:
        said = [line.text for line in read_log(reports()["overflow"]).key_lines]
        self.assertFalse(any("nan values" in text for text in said), said)
