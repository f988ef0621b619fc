"""nan_probe.py on toy models under each real torch here, and its report in the box."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.views import serve
from django.test import RequestFactory, SimpleTestCase, TestCase, tag

from kb.environments.environment import find_environment
from kb.lookup.answer import look_up
from kb.lookup.paste import kinds_of, read_paste, readable
from runner.takeaway.probe import NAME, nan_probe
from tests import TESTS
from tests.support import loaded
from tests.support.builds import torch_python
from tests.support.log_corpus import read_log
from tests.support.probes import MADE, PORTABLE, pythons

TOYS = TESTS / "probe" / "toys.py"
CAUSES = TESTS / "probe" / "all_causes.py"
PROGRAMS = TESTS / "probe" / "programs.py"


SPAWNS = """
import torch

def train(rank):
    weight = torch.ones(2, requires_grad=True)
    for step in range(3):
        (weight.sum() * (step != 1)).log().backward()  # made here

if __name__ == "__main__":
    torch.multiprocessing.spawn(train, nprocs=1)
"""

WARNS = """
import torch

def train():
    model = torch.nn.Linear(4, 2)
    for step in range(3):
        out = model(torch.ones(3, 4))
        torch.ones(2, 3, 4).T  # told in C++
        loss = torch.nn.functional.mse_loss(out, torch.zeros(2))  # told in Python
        out.grad  # told of a property
        (loss / (step != 2) * (step != 2)).backward()

train()
"""


def ask(*command: str) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=600,
        cwd=TOYS.parent,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def toys(python: str, *names: str) -> dict[str, Any]:
    """What the toys say under a Python; each of the classes below asks for it."""
    command = (python, str(TOYS), str(PORTABLE), *names)
    name = "-".join(["toys", *names, python.replace("/", "_")])
    found: dict[str, Any] = loaded.once(name, lambda: json.loads(ask(*command)))
    return found


def toy(name: str) -> Any:
    """Of the build of the tests."""
    return toys(torch_python())[name]


def compiled(name: str) -> Any:
    """One of those that compile: all in a process of their own."""
    return toys(torch_python(), "compiled")[name]


def rows(report: str) -> dict[str, str]:
    """What the report says, by row; each row stands there once."""
    lines = [line for line in report.splitlines() if line.startswith("  ")]
    found = dict(line[2:].split(": ", 1) for line in lines)
    assert len(found) == len(lines), report
    return found


class EveryTorchTests(SimpleTestCase):
    """What holds on each torch."""

    def each(self, name: str) -> list[Any]:
        return [toys(python)[name] for python in pythons()]

    def check(self, name: str, **expected: str) -> None:
        """Each row named says what is expected, or begins so."""
        for report in self.each(name):
            found = rows(report)
            for row, begin in expected.items():
                with self.subTest(name, row=row, torch=found["torch"]):
                    self.assertEqual(found[row][: len(begin)], begin, report)

    def test_a_nan_of_forward(self) -> None:
        self.check(
            "zero_by_zero",
            direction="forward",
            module="body (ZeroByZero)",
            op="aten.div.Tensor",
            cause="the op, from finite inputs",
            line="toys.py:",
            dtype="torch.float32",
            shape="[2, 4]",
            value="nan 8, inf 0 of 8",
            inputs="torch.float32 [2, 4] |x| up to 0; torch.float32 [2, 4] |x| up to 0",
            reached="the loss",
        )
        self.check("log", op="aten.log.default", module="body (LogOfNegative)")
        for report in self.each("log"):
            self.assertRegex(rows(report)["inputs"], r"\|x\| up to [1-9]")

    def test_what_only_passes_it_on_is_not_named(self) -> None:
        for name in ("zero_by_zero", "log", "where", "weight"):
            for report in self.each(name):
                with self.subTest(name):
                    self.assertNotIn("then", rows(report))
                    self.assertNotIn("made from", rows(report))

    def test_what_an_op_in_place_read_before(self) -> None:
        zero = "torch.float32 [2, 4] |x| up to 0"
        self.check("in_place", op="aten.div_.Tensor", inputs=f"{zero}; {zero}")

    def test_the_line_with_its_source(self) -> None:
        for name, source in (
            ("zero_by_zero", "return x * 0 / (x * 0)"),
            ("log", "return torch.log(-x.abs() - 1)"),
            ("where", "return torch.where(zero > 0, zero.sqrt(), x)"),
            ("custom", "return zero / zero"),
            (
                "target",
                "return mse(model(ONES), wrong)",
            ),
        ):
            for report in self.each(name):
                with self.subTest(name):
                    self.assertTrue(
                        rows(report)["line"].endswith(f": {source}"), report
                    )

    def test_an_overflow_names_type_and_magnitude(self) -> None:
        self.check(
            "overflow",
            op="aten.add.Tensor",
            module="body (Overflow)",
            dtype="torch.float16 (up to 65504)",
            value="nan 0, inf 8 of 8",
            inputs="torch.float16 [2, 4] |x| up to 6e+04, 92% of its range",
            then="nan of aten.addmm.default, forward, in down (Linear)",
        )

    def test_a_gradient_has_the_line_of_its_forward(self) -> None:
        self.check(
            "root",
            direction="backward",
            module="body (RootOfZero)",
            op="SqrtBackward0 (aten.div.Tensor)",
            value="nan 0, inf 2 of 2",
            then="nan of PowBackward0 (aten.mul.Tensor), backward, in body (RootOf",
            reached="the gradient of up.weight",
        )
        self.check("where", op="SqrtBackward0 (aten.div.Tensor)", value="nan 8, inf 0")
        self.check("custom", op="WrongBackwardBackward (aten.div.Tensor)")
        for report in self.each("root"):
            self.assertIn("loss(model).backward()", rows(report)["called at"])

    def test_weights_batch_and_target(self) -> None:
        self.check("weight", direction="before the step", module="down.bias")
        self.check("weight", cause="a weight or buffer", value="nan 1, inf 0 of 2")
        self.check("batch", direction="before the step", cause="an input")
        self.check("batch", module="(an argument of the model)")
        self.check("keyword", direction="before the step", cause="an input")
        self.check("target", direction="before the step", cause="an input")
        self.check("target", module="(a batch or target)")

    def test_a_mask_is_no_finding(self) -> None:
        for name in ("mask", "mask_buffer", "mask_log", "healthy", "odd_tensors"):
            for report in self.each(name):
                with self.subTest(name):
                    self.assertIn("nan_probe 2: nothing found\n", report)
        for report in self.each("mask_log"):
            absorbed = rows(report)["not finite, without effect"]
            self.assertTrue(absorbed.startswith("inf of aten.log.default"), absorbed)
        for name in ("mask", "mask_buffer"):
            for report in self.each(name):
                self.assertNotIn("not finite, without effect", report)

    def test_a_shut_row_is_the_softmax_of_a_mask(self) -> None:
        self.check(
            "mask_shut",
            op="aten._softmax.default",
            cause="the op, from an Inf among its inputs",
            **{"made from": "inf of aten.masked_fill.Scalar, forward, in body (Atten"},
        )
        self.check("mask_buffer_shut", op="aten._softmax.default")
        self.check("mask_log_shut", op="aten.log.default", then="nan of aten._softmax")

    def test_memory_behind_the_back_of_torch(self) -> None:
        self.check("memory", cause="memory of torch.empty that no op seen here wrote")

    def test_autocast(self) -> None:
        self.check(
            "autocast",
            module="up (Linear)",
            op="aten._to_copy.default",
            dtype="torch.bfloat16 (up to 3.3895e+38)",
            inputs="torch.float32 [4, 4] |x| up to 3.4e+38, 100% of its range",
        )
        for report in self.each("autocast_healthy"):
            self.assertIn("nothing found\n", report)

    def test_checkpoints(self) -> None:
        for name in ("checkpoint", "checkpoint_reentrant"):
            self.check(
                name,
                direction="backward",
                module="body.body (RootOfZero)",
                op="SqrtBackward0",
                line="toys.py:",
            )
        self.check("checkpoint_forward", direction="forward", op="aten.div.Tensor")
        self.check(
            "checkpoint_again",
            direction="forward",
            module="(outside the model)",
            op="aten.mul.Tensor",
            cause="a constant in the code",
            reached="the gradient of up.weight",
        )

    def test_no_backward_optimizer_and_accumulation(self) -> None:
        self.check("no_backward", op="aten.log.default", reached="the last result")
        self.check("optimizer", direction="optimizer", reached="a weight")
        self.check("accumulation", cause="a constant in the code that is not finite")

    def test_a_loss_that_the_optimizer_computes(self) -> None:
        self.check("closure", op="SqrtBackward0", direction="backward")

    def test_a_weight_that_no_optimizer_wrote(self) -> None:
        for default, every_op in self.each("written_by_hand"):
            for said, step in ((rows(default), "2 "), (rows(every_op), "1 ")):
                self.assertEqual(said["step"][:2], step)
                self.assertTrue(said["line"].endswith("if number == 1 else 0.1)"), said)

    def test_the_weight_of_several_is_the_bad_one(self) -> None:
        for flat, by_hand in self.each("weights_in_one_storage"):
            self.assertEqual(rows(flat)["module"], "weight")
            self.assertEqual(rows(by_hand)["reached"], "bias, written by hand")

    def test_a_weight_that_was_bad_from_the_beginning(self) -> None:
        for report in self.each("bad_from_the_beginning"):
            found = rows(report)
            self.assertEqual(found["reached"], "the loss")
            self.assertIn("as it was made or loaded", found["cause"])
            self.assertIn("initialize it", found["next"])

    def test_a_repeat_that_the_program_refuses(self) -> None:
        for report in self.each("a_model_that_runs_once"):
            self.assertEqual(rows(report)["repeated"], "not repeated: Again()")

    def test_no_more_buffers_are_kept_than_a_step_needs(self) -> None:
        for left in self.each("buffers_made_anew"):
            self.assertLessEqual(left, 3)

    def test_the_line_of_a_package_and_the_programs_own(self) -> None:
        self.check("package", line="site-packages/library.py:2 in bad: return x.log()")
        for report in self.each("package"):
            self.assertIn("return library.bad(", rows(report)["called at"])

    def test_ranks(self) -> None:
        for python in pythons():
            heard, made = map(rows, toys(python)["ranks"])
            with self.subTest(made["torch"]):
                self.assertEqual((heard["rank"], made["rank"]), ("0 of 2", "1 of 2"))
                self.assertEqual(made["module"], "module.body (RootOfZero)")
                self.assertTrue(made["op"].startswith("SqrtBackward0"), made)
                self.assertTrue(heard["cause"].startswith("not seen"), heard)
                self.assertIn("c10d.allreduce_", heard["other ranks"])

    def test_every_third_step(self) -> None:
        for found in self.each("every_third"):
            self.assertIn("  step: 6 (from 0; every 3 is watched)\n", found["report"])
            self.assertEqual(found["report"].count("first non-finite value"), 1)
            # Steps, steps watched, hooks and modes: a mode in watched steps only, and
            # neither once something was found.
            self.assertEqual(
                found["seen"],
                [
                    *([1, 1, 1, 1], [2, 1, 1, 0], [3, 1, 1, 0]),
                    *([4, 2, 1, 1], [5, 2, 1, 0], [6, 2, 1, 0]),
                    *([7, 3, 1, 1], [8, 3, 0, 0], [8, 3, 0, 0]),
                ],
            )
            self.assertEqual(found["after"], [0, 0])

    def test_every_second_step_after_a_call_in_another_thread(self) -> None:
        for found in self.each("every_second_in_threads"):
            self.assertEqual(rows(found["report"])["step"][:2], "4 ")
            self.assertEqual(found["missed"], 0)
            self.assertEqual(found["after"], [0, 0])

    def test_steps_by_hand_and_a_decorated_function(self) -> None:
        for found in self.each("by_hand"):
            self.assertEqual(rows(found["report"])["step"][:2], "2 ")
            self.assertEqual(found["after"], [0, 0])
        for found in self.each("decorated"):
            self.assertEqual(found["steps"], [5, 3])
            self.assertEqual(rows(found["report"])["step"][:2], "4 ")
            self.assertEqual(found["after"], [0, 0])

    def test_off_installs_nothing(self) -> None:
        for found in self.each("off"):
            self.assertEqual(found["inside"], [0, 0, 0, 0])
            self.assertIn("nan_probe 2: nothing watched", found["report"])

    def test_nothing_stays_after_an_exception(self) -> None:
        for found in self.each("exception"):
            self.assertIn("op: aten.log.default", found["report"])
            self.assertEqual(found["after"], [0, 0])

    def test_an_error_in_the_very_op_where_asked_for(self) -> None:
        for found in self.each("error"):
            self.assertEqual(found["line"], "return torch.log(-x.abs() - 1)")
            self.assertEqual(rows(found["text"])["op"], "aten.log.default")
            self.assertEqual(found["printed"], "")
            self.assertEqual(found["after"], [0, 0])
        self.check("error_overflow", op="aten.add.Tensor", reached="the loss")

    def test_modes_of_others(self) -> None:
        for found in self.each("other_mode"):
            self.assertEqual(found["missed"], 1)
            self.assertEqual(found["first"][1], 0)
            self.assertEqual(rows(found["report"])["step"][:2], "1 ")
            self.assertEqual(found["after"], [0, 0])

    def test_a_rerun_with_the_same_inputs_and_random_numbers(self) -> None:
        for found in self.each("run"):
            self.assertTrue(rows(found["same"])["rerun"].startswith("same"))
            self.assertTrue(rows(found["flaky"])["rerun"].startswith("differs"))
            self.assertIn("suspect the node", rows(found["flaky"])["rerun"])
            # One call seen: the repeats have left no trace.
            self.assertEqual(found["seen"], 1.0)
            self.assertEqual([found["grads"], found["bad"]], [True, True])
            # The gradient of the step itself, not of a repeat that was good.
            self.assertTrue(found["grad"])
            self.assertTrue(found["random"])


class NewTorchTests(SimpleTestCase):
    """torch.compile and GradScaler, on the build of the tests."""

    def test_compiled_code_is_said_to_be_hidden(self) -> None:
        found = compiled("compiled")
        said = rows(found["report"])
        self.assertTrue(said["cause"].startswith("not seen: compiled code"), said)
        self.assertEqual(said["compiled"], "yes, body")
        self.assertIn("TORCH_COMPILE_DISABLE=1", said["hidden"])
        self.assertEqual(said["op"], "(read by aten.addmm.default)")

    def test_it_stays_compiled_though_met_in_a_watched_step(self) -> None:
        found = compiled("compiled")
        self.assertEqual((found["before"], found["later"]), ([1, 1], [1, 3]))

    def test_it_is_never_silently_clean(self) -> None:
        report = compiled("compiled_healthy")
        self.assertIn("nan_probe 2: nothing found in what is seen\n", report)
        self.assertIn("TORCH_COMPILE_DISABLE=1", rows(report)["hidden"])

    def test_what_else_is_compiled_is_not_said_of_the_model(self) -> None:
        before, meanwhile = compiled("compiled_elsewhere")
        self.assertIn("nan_probe 2: nothing found\n", before)
        self.assertTrue(rows(before)["compiled"].startswith("no module of the model;"))
        self.assertEqual(
            rows(meanwhile)["compiled"], "yes, 1 graphs since the watch began"
        )

    def test_op_by_op_where_asked_for(self) -> None:
        found = compiled("compiled_eager")
        self.assertEqual(rows(found["report"])["op"], "aten.div.Tensor")
        self.assertEqual(found["runs"], [0, 1])

    def test_a_model_compiled_as_a_whole(self) -> None:
        found = compiled("compiled_whole")
        self.assertEqual((found["steps"], found["graphs"]), ([5, 3], 1))
        said = rows(found["report"])
        self.assertEqual(said["module"], "(an argument of the model)")
        self.assertIn("not seen: compiled code", said["then"])

    def test_a_model_compiled_while_it_is_watched_computes_as_alone(self) -> None:
        found = compiled("compiled_inside")
        self.assertEqual(found["watched"], found["alone"])
        self.assertEqual(found["steps"], 1)

    def test_a_model_whose_call_is_compiled_needs_marks(self) -> None:
        found = compiled("compiled_call")
        self.assertIn("no step was seen", rows(found["unmarked"])["watched"])
        self.assertIn("first non-finite value", found["report"])

    def test_steps_that_grad_scaler_skips(self) -> None:
        (skipped, clean), (none, report) = toy("scaler")
        self.assertEqual((skipped, none), (3, 0))
        self.assertIn("nothing found", clean)
        self.assertEqual(rows(clean)["skipped"], "3 steps, for the loss scale")
        self.assertTrue(rows(report)["op"].startswith("SqrtBackward0"))

    def test_ops_of_a_higher_order(self) -> None:
        self.assertEqual(rows(toy("flex_attention"))["op"], "aten.div.Tensor")


@tag("long")
class EveryStepTests(SimpleTestCase):
    """The default: each step is checked, and the bad one run again op by op."""

    def check(self, kind: str) -> None:
        said = json.loads(ask(torch_python(), str(CAUSES), str(PORTABLE), kind))
        for cause, report in said.items():
            found = rows(report)
            op, line = MADE[cause]
            with self.subTest(kind, cause=cause):
                self.assertEqual(found["step"].split()[0], "7", report)
                self.assertIn(op, found["op"], report)
                self.assertIn(line, found["line"], report)

    def test_a_loop_of_its_own(self) -> None:
        self.check("plain")

    def test_a_step_function(self) -> None:
        self.check("step")

    def test_a_script_as_it_is(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name, NAME)
            path.write_text(nan_probe())
            script = str(CAUSES.with_name("causes.py"))
            done = subprocess.run(
                [torch_python(), str(path), script, "plain", "root_of_zero"],
                capture_output=True,
                text=True,
                cwd=name,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("SqrtBackward0", rows(done.stderr)["op"])
            self.assertIn("loss.backward()", rows(done.stderr)["called at"])

    def test_a_warning_stands_at_the_line_of_the_program_once(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            probe, script = Path(name, NAME), Path(name, "train.py")
            probe.write_text(nan_probe())
            script.write_text(WARNS)
            said = []
            for command in ([str(script)], [str(probe), str(script)]):
                done = subprocess.run(
                    [torch_python(), *command],
                    capture_output=True,
                    text=True,
                    cwd=name,
                )
                told = done.stderr.partition("nan_probe 2")[0]
                said.append(told)
            self.assertIn("nan_probe 2: first non-finite value", done.stderr)
            self.assertEqual(said[0].count("  # told "), 3, said[0])
            self.assertEqual(said[0], said[1])

    def test_processes_that_a_script_starts(self) -> None:
        """Each watches itself; the script may import what lies beside it only."""
        with tempfile.TemporaryDirectory() as name:
            other = Path(name, "other")
            other.mkdir()
            path, script = Path(name, NAME), other / "train.py"
            path.write_text(nan_probe())
            script.write_text(SPAWNS)
            done = subprocess.run(
                [torch_python(), str(path), str(script)],
                capture_output=True,
                text=True,
                cwd=other,
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        found, _, rest = done.stderr.partition("nan_probe 2: nothing watched")
        self.assertIn("# made here", rows(found)["line"])
        self.assertEqual(rows(rest)["watched"], "no step was seen here")
        self.assertEqual(rows(rest)["processes"], "1; each watched itself")

    def test_programs_as_people_write_them(self) -> None:
        for python in pythons():
            said = json.loads(ask(python, str(PROGRAMS), str(PORTABLE)))
            for name, found in said.items():
                with self.subTest(name, python=python):
                    self.assertTrue(found["same"], "the program went on otherwise")
                    line = rows(found["report"]).get("line", "")
                    is_healthy = name.startswith("a_metric") or "metrics" in name
                    self.assertEqual("# made here" in line, not is_healthy, found)
            grown = {
                "a_rate_that_is_too_high": "loss",
                "a_rate_that_is_too_high_at_once": "weights",
            }
            for name in grown.keys() & said.keys():
                steep = rows(said[name]["report"])
                self.assertIn("lower the learning rate", steep["diverges"])
                self.assertIn(grown[name], steep["diverges"])
            own = rows(said["a_function_of_ones_own"]["report"])
            self.assertEqual((own["direction"], own["law"]), ("backward", "0 / 0"))
            for name, op in (
                ("what_a_model_puts_in_the_place_of_what_it_held", "aten.div"),
                ("several_losses", "aten.log"),
            ):
                self.assertEqual(rows(said[name]["report"])["op"][: len(op)], op)
            hook = rows(said["a_hook_of_a_gradient"]["report"])
            self.assertEqual((hook["direction"], hook["law"]), ("backward", "0 / 0"))
            for name in {
                "a_scripted_function",
                "a_transform_of_torch_func",
            } & said.keys():
                hidden = rows(said[name]["report"])
                self.assertTrue(hidden["cause"].startswith("not seen"), hidden)
            clipped = rows(said["gradients_that_are_clipped_by_hand"]["report"])
            self.assertNotIn("diverges", clipped)

    def test_the_state_after_a_repeat(self) -> None:
        found = toy("left_as_it_was")
        self.assertEqual(found["same"], [True] * len(found["same"]))
        self.assertEqual(found["after"], [0, 0])

    def test_a_healthy_loss_scale_is_no_finding(self) -> None:
        found = toy("scaler_by_default")
        self.assertIn("nothing found", found["healthy"])
        self.assertIn("SqrtBackward0", rows(found["bad"])["op"])

    def test_weights_that_never_have_a_gradient_are_named(self) -> None:
        found = toy("weights_without_a_gradient")
        said = rows(found["cut"])["no gradient"]
        self.assertTrue(said.startswith("ModuleDict.cut.weight: 1 of 4 weights"), said)
        self.assertNotIn("no gradient", rows(found["whole"]))


class FileTests(SimpleTestCase):
    def test_it_needs_nothing_but_torch(self) -> None:
        for path in (PORTABLE / "nan_probe").glob("*.py"):
            tree = ast.parse(path.read_text(), feature_version=(3, 8))
            imported = set()
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    imported.add(str(node.module).partition(".")[0])
            with self.subTest(path.name):
                self.assertLessEqual(imported, sys.stdlib_module_names | {"torch"})

    def test_as_one_file_it_says_the_same(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            Path(name, NAME).write_text(nan_probe())
            for python in pythons():
                said = json.loads(ask(python, str(TOYS), name, "zero_by_zero"))
                expected = {"zero_by_zero": toys(python)["zero_by_zero"]}
                self.assertEqual(said, expected)

    def test_a_copy_that_was_cut_off_says_so(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name, NAME)
            text = nan_probe().replace("def is_finite(value", "def is_bad(value", 1)
            path.write_text(text)
            done = subprocess.run(
                [torch_python(), "-c", "import nan_probe"],
                cwd=name,
                capture_output=True,
                text=True,
            )
        self.assertIn("values.py of this copy differs", done.stderr)

    def test_the_site_serves_it_at_its_address(self) -> None:
        response = serve(RequestFactory().get("/static/" + NAME), NAME, insecure=True)
        self.assertEqual(b"".join(response), nan_probe().encode())


@tag("any_database")
class PasteTests(TestCase):
    """The report is a part of a paste that the box understands."""

    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def test_what_it_is_taken_for(self) -> None:
        for name in ("root", "mask_shut", "overflow", "weight", "healthy", "mask_log"):
            with self.subTest(name):
                paste = read_paste(readable(toy(name)))
                self.assertEqual(kinds_of(paste), ["nan_probe"])
                self.assertEqual([part.kind for part in paste.parts], ["nan_probe"])

    def test_it_is_one_part_among_others(self) -> None:
        text = f"import torch\nx = torch.zeros(3)\n\n{toy('root')}\n\nstep 0 loss nan"
        last = text.count("\n") + 1
        paste = read_paste(readable(text))
        self.assertEqual(
            [tuple(part) for part in paste.parts],
            [
                ("code", 1, 2),
                ("nan_probe", 4, last - 2),
                ("metrics", last, last),
            ],
        )
        self.assertEqual(kinds_of(paste), ["nan_probe", "code"])

    def test_facets(self) -> None:
        run = toy("run")
        for report, expected in (
            (toy("where"), {"nan_in_SqrtBackward", "probe_backward", "dtype_float32"}),
            (toy("root"), {"inf_in_SqrtBackward", "probe_backward"}),
            (toy("overflow"), {"probe_forward", "dtype_float16"}),
            (compiled("compiled_healthy"), {"compiled"}),
            (run["same"], {"rerun_same"}),
            (run["flaky"], {"rerun_differs"}),
        ):
            with self.subTest(report):
                self.assertLessEqual(expected, set(read_log(report).facets))
        # What follows from the first value is no sign of its own.
        self.assertNotIn("nan_in_PowBackward", read_log(toy("root")).facets)

    def test_the_build_is_read(self) -> None:
        self.assertTrue(find_environment(toy("root")).torch_raw)

    def test_a_backward_op_is_matched_as_autograd_words_it(self) -> None:
        prefixed = "".join(f"[rank2]: {line}\n" for line in toy("where").splitlines())
        for text in (toy("where"), prefixed):
            found = look_up(f"step 0 loss 1.3\n{text}")
            # Both records have that op, and the op alone is sure of none.
            self.assertEqual(found["outcome"], "possible")
            ids = {match["record"] for match in found["candidates"]}
            self.assertLessEqual({"NAN-0015", "NAN-0016"}, ids)

    def test_records_of_what_it_names(self) -> None:
        for name, record in (("root", "NAN-0016"), ("mask_shut", "NAN-0014")):
            with self.subTest(name):
                found = look_up(toy(name))
                listed = [item["record"] for item in found["candidates"]]
                self.assertIn(record, listed)
        # Attention itself gives no NaN there since torch 2.5.
        self.assertIn("NAN-0008", found["ruled_out"][0]["records"])

    def test_its_rows_are_no_messages_of_a_log(self) -> None:
        for name in ("overflow", "mask_shut", "weight", "mask_log"):
            with self.subTest(name):
                self.assertEqual(read_log(toy(name)).key_lines, [])

    def test_a_report_without_a_finding_matches_nothing(self) -> None:
        for name in ("healthy", "mask_log"):
            with self.subTest(name):
                found = look_up(toy(name))
                self.assertEqual(found["candidates"], [])
