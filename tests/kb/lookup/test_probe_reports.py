"""What a pasted report of nan_probe leads to: by what it measured, never by a word."""

from __future__ import annotations

from typing import Any

from django.test import TestCase

from kb.lookup.answer import look_up
from kb.lookup.slices import alike
from kb.search.reading.probe import Probe
from portable.nan_probe.known import RECORDS, is_telling
from tests.support import loaded

Json = dict[str, Any]
REPORT = """nan_probe 2: first non-finite value
  step: 7 (from 0; each is checked)
  direction: {direction}
  module: (outside the model)
  op: {op}
  cause: {cause}
  law: {law}
  slice: {slice}
  line: train.py:41 in <module>: {line}
  dtype: torch.{dtype} (up to 3.4028e+38)
  device: cpu
  value: nan 3, inf 2 of 64
  then: {then}
  reached: the loss
  compiled: no
  torch: 2.13.0+cpu"""
FROM_FINITE = "the op, from finite inputs"
GIVEN = "an input: the tensor came from outside the step"
LOADED = "a weight or buffer that was not finite before the first step: as it was made"
SILENT = """nan_probe 2: nothing found
  watched: 50 steps, each by its loss, gradients and weights
  no gradient: encoder.weight: 1 of 4 weights of the optimizer: None or only 0 in each
  compiled: no
  torch: 2.13.0+cpu"""
ADAM = "addcdiv(x, x, add(div(sqrt(addcmul(mul(x: 0): 0, x, x): 0): 0): 0): 0)"
NORM = "div(mm(x, x): 0, vector_norm(mm(x, x): 0): 0)"


def report(**said: str) -> str:
    plain = {"direction": "forward", "cause": FROM_FINITE, "dtype": "float32"}
    rows = dict.fromkeys(("op", "law", "slice", "line", "then"), "") | plain | said
    lines = REPORT.format(**rows).split("\n")
    return "\n".join(line for line in lines if not line.endswith(": "))


class ReportTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def listed(self, log: str) -> list[str]:
        return [row["record"] for row in look_up(log)["candidates"]]

    def test_the_slice_of_its_trigger_leads_to_each_record(self) -> None:
        for record, (slice_, law) in RECORDS.items():
            if is_telling(slice_):
                with self.subTest(record):
                    log = report(op="aten.x.default", law=law, slice=slice_)
                    self.assertIn(record, self.listed(log))

    def test_ops_before_the_last_one_tell_divisions_apart(self) -> None:
        log = report(op="aten.div.Tensor", law="0 / 0", slice=NORM)
        found = self.listed(log)
        self.assertEqual(found[0], "NAN-0079")
        self.assertNotIn("NAN-0101", found)

    def test_a_slice_tells_more_than_its_law(self) -> None:
        centred = (
            "div(mul(x, sub(relu(x: 0): 0, mean(relu(x: 0): 0): 0): 0): 0, std(x): 0)"
        )
        found = self.listed(report(op="aten.div", law="0 / 0", slice=centred))
        self.assertEqual(found[0], "NAN-0088")

    def test_what_calls_the_optimizer_names_no_cause(self) -> None:
        found = self.listed(
            report(
                direction="optimizer",
                op="aten.addcdiv_.default",
                law="a number / 0",
                slice=ADAM,
                dtype="float16",
                line="loss = F.cross_entropy(model(x), y); loss.backward(); opt.step()",
            )
        )
        self.assertEqual(found[0], "NAN-0036")
        self.assertNotIn("NAN-0034", found)

    def test_an_overflow_is_of_the_number_format_or_of_a_divergence(self) -> None:
        for dtype, record in (("float32", "NAN-0100"), ("float16", "NAN-0091")):
            log = report(
                op="aten.bmm.default",
                law="overflow of a product or square",
                slice="bmm(x, x)",
                dtype=dtype,
            )
            ranked = "".join(f"[rank2]: {line}\n" for line in log.splitlines())
            for text in (log, ranked):
                self.assertEqual(self.listed(text)[0], record)

    def test_who_made_it_where_no_op_did(self) -> None:
        for cause, record in ((GIVEN, "NAN-0088"), (LOADED, "NAN-0162")):
            line = "h = F.layer_norm(x.exp() / x.std(), shape)"
            log = report(op="(read by aten.addmm.default)", cause=cause, line=line)
            self.assertEqual(self.listed(log), [record])

    def test_what_follows_from_it_is_no_cause(self) -> None:
        log = report(
            op="aten.exp.default",
            law="overflow of exp",
            slice="exp(x)",
            then="nan of LogBackward0 (aten.div.Tensor), backward, in (outside)",
        )
        answer = look_up(log)
        self.assertEqual(answer["candidates"][0]["record"], "NAN-0083")
        self.assertNotIn("LogBackward", str(answer["facts"]["named"]))

    def test_its_own_words_are_nobodys(self) -> None:
        log = report(op="aten.log.default", law="log of 0", slice="log(sub(x): 0)")
        said = [
            why["en"] for row in look_up(log)["candidates"] for why in row["because"]
        ]
        self.assertTrue(said)
        self.assertFalse([text for text in said if "paste says" in text])

    def test_weights_without_a_gradient(self) -> None:
        found = look_up(SILENT)
        self.assertEqual([row["slug"] for row in found["symptoms"]], ["grad-none"])
        # An optimizer was given them, and they ask for a gradient.
        names = [row["slug"] for row in found["candidates"]]
        self.assertEqual(names[0], "argmax-cuts-gradient")
        self.assertTrue({"frozen-by-mistake", "grad-of-non-leaf"}.isdisjoint(names))


class AlikeTest(TestCase):
    def found(self, slice_: str, law: str) -> list[str]:
        return sorted(alike(Probe(slice=(1, slice_), law=(1, law))))

    def test_one_op_is_no_fingerprint_beside_another_law(self) -> None:
        self.assertEqual(self.found("exp(sub(x): 0)", "0 / 0"), [])
        self.assertIn("NAN-0083", self.found("exp(x)", "overflow of exp"))

    def test_ordinary_ops_share_a_name_and_no_failure(self) -> None:
        self.assertNotIn("NAN-0098", self.found("div(sub(x): 0, x: 0)", "0 / 0"))

    def test_forward_and_backward_of_one_slice_are_one_failure(self) -> None:
        self.assertIn("NAN-0151", self.found("log(sub(x): 0)", "log of 0"))

    def test_a_report_without_a_slice(self) -> None:
        self.assertEqual((alike(None), self.found("", "0 / 0")), ({}, []))
