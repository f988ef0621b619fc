"""An answer's five parts: decision, facts, candidates, first checks, ruled out."""

from __future__ import annotations

import json
import re

from django.test import SimpleTestCase, TestCase

from kb.lookup import steps
from kb.lookup.answer import look_up
from kb.lookup.facts import Facts, document, read_facts
from kb.lookup.first_checks import CHECKS
from kb.lookup.paste import read_paste
from kb.records import tellers
from kb.search.reading.figures import Figures, read_figures
from runner.agents import tools
from tests.support import loaded

WARNING = (
    "/p/torch/utils/checkpoint.py:61: UserWarning: None of the inputs have "
    "requires_grad=True. Gradients will be None"
)
STEPS = "\n".join(
    f"{{'loss': {2.3 - at / 10:.1f}, 'grad_norm': 0.9, 'learning_rate': 1e-05}}"
    for at in range(6)
)
BAD = "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-05}"
FREEZE = "torch==2.5.1+cu124\n" + "\n".join(f"package-{n}==1.{n}" for n in range(30))


def figures(text: str) -> Figures:
    return read_figures(enumerate(text.splitlines(), start=1))


def facts_of(text: str, env: str = "") -> Facts:
    paste = read_paste(text)
    return read_facts(paste, env, paste.environment)


class FigureTests(SimpleTestCase):
    def test_each_trainers_form_is_read(self) -> None:
        for text, kind, state in (
            (
                "      Epoch  GPU_mem  box_loss  cls_loss\n  1/9  3.9G  nan  nan",
                "loss",
                "nan",
            ),
            ("epoch,train/box_loss,train/cls_loss\n1,nan,0.4", "loss", "nan"),
            (
                "steps:  4%| | 20/500 [00:27<21:48, avr_loss=nan]",
                "loss",
                "nan",
            ),
            ("2024-01-01 10:00: train_loss nan", "loss", "nan"),
            ("2/98 [00:00, 2.36it/s, v_num=14, train_loss=nan.0]", "loss", "nan"),
            ("loss: -Infinity, an infinite loss", "loss", "inf"),
            (
                " iteration 3/ 9 | lm loss: 1.0E+01 | grad norm: nan |",
                "grad_norm",
                "nan",
            ),
            ("step:3 - actor/pg_loss:0.0 - actor/grad_norm:nan", "loss", "zero"),
            ("grad_norm: 0.39 (nan)", "grad_norm", "nan"),
            ("Loss nan   Fp16 Grad Scale:  0", "loss_scale", "zero"),
            (
                "OVERFLOW! Attempted loss scale: 2, reducing to 1",
                "loss_scale",
                "finite",
            ),
        ):
            with self.subTest(text):
                self.assertIn(state, figures(text).states(kind))

    def test_every_step_is_read_in_each_trainers_form(self) -> None:
        for kind, form in (
            ("loss", "iter 7: loss {}, time 61.9ms, mfu 1.2%"),
            ("loss", "step 7: train loss {}, val loss 1.72"),
            ("loss", "epoch   train_loss  valid_loss  time\n0  {}  0.81  00:10"),
            ("loss", "Step\tTraining Loss\n7\t{}"),
            ("loss", "2024-01-01 10:00:00.0: train_loss {}"),
            ("loss", "Epoch 1 | iter 7 step 2 | loss train: {}, val: n/a"),
            ("grad_norm", "step 7/90 | loss 9.1 (+0.1z)| norm {} (+0.2z)| lr 3e-5"),
            ("grad_norm", "step 7 | loss: 9.1 | lr 1.2e-4 | norm: {} | dt: 3ms"),
            ("grad_norm", "Batch 7/90 loss 3.2 lr 0.0005 grad_norm {} rank 2"),
        ):
            with self.subTest(form):
                text = form.format(0.5) + "\n" + form.format("nan")
                points = facts_of(text).figures.series[kind]
                self.assertEqual([str(p.value) for p in points], ["0.5", "nan"])

    def test_a_mean_over_steps_says_that_an_earlier_one_was_bad(self) -> None:
        found = figures("loss: 6.59 (6.57)  grad_norm: 0.39 (nan)")
        self.assertIn("recovers", found.states("grad_norm"))
        self.assertEqual(found.states("loss"), {"finite"})
        self.assertNotIn("recovers", figures("loss: nan (nan)").states("loss"))

    def test_what_a_person_says_of_a_loss_is_no_step(self) -> None:
        said = "Loss becomes nan after ~6000 iterations"
        log = "iter 5990: loss 3.6, time 1ms\niter 6000: loss nan, time 1ms"
        facts = facts_of(f"{said}\n{log}")
        self.assertEqual(facts.numbers["finite_steps"], 1)
        self.assertEqual(facts["onset"], ("later",))
        self.assertEqual(facts_of("it was nan again")["onset"], ("later",))
        self.assertEqual(facts_of("一开始正常，后面loss全是nan")["onset"], ("later",))
        self.assertEqual(facts_of("一开始 loss 就是 nan")["onset"], ("first",))

    def test_the_first_bad_step_and_what_came_before(self) -> None:
        found = figures(f"{STEPS}\n{BAD}")
        assert found.first_bad
        kind, point = found.first_bad
        self.assertEqual((kind, point.line), ("grad_norm", 7))
        self.assertEqual(found.finite_before("grad_norm"), 6)
        grown = figures("\n".join(f"loss: {2 * 4**at}" for at in range(5)))
        self.assertGreater(grown.growth(), 100)

    def test_growth_is_to_a_later_loss(self) -> None:
        for losses, least, most in (
            ((40, 30, 5, 1), 0, 1),
            ((1.9, 1.9, 11.4), 5, 7),
            ((1, 9), 1, 1),
        ):
            found = figures("\n".join(f"loss: {loss}" for loss in losses)).growth()
            self.assertTrue(least <= found <= most, losses)

    def test_an_evaluation_is_no_step(self) -> None:
        self.assertEqual(figures("eval_loss: nan").series, {})


class FactTests(SimpleTestCase):
    def test_named_facts_with_their_lines(self) -> None:
        facts = facts_of("ultralytics yolov8n\namp on, NVIDIA GeForce GTX 1660 Ti")
        self.assertEqual(facts.line_of("trainer", "ultralytics"), 1)
        self.assertEqual(facts.line_of("mode", "amp"), 2)
        self.assertTrue(tellers.holds('card ~ "gtx 16" and device == "cuda"', facts))

    def test_a_card_is_called_by_the_series_whose_chip_it_has(self) -> None:
        cards = {"NVIDIA T1000 8GB": True, "GTX1660": True, "Tesla T4": False}
        for card, has_it in cards.items():
            facts = facts_of(f"ultralytics yolov8n\n{card}")
            self.assertIs(tellers.holds('card ~ "GTX 16"', facts), has_it)
            self.assertIs(bool(facts.cards_like("GTX 16")), has_it)
        self.assertTrue(tellers.holds('card ~ "RTX 50"', facts_of("nan on RTX5090")))

    def test_what_comes_after_a_switch_is_no_later_step(self) -> None:
        logs = {
            "torch.compile 之后 loss nan": False,
            "训练 300 步之后 loss 为 nan": True,
        }
        for log, is_later in logs.items():
            found = tellers.holds('onset == "later"', facts_of(log)) is True
            self.assertIs(found, is_later, log)

    def test_a_fact_that_nobody_states_is_neither_true_nor_false(self) -> None:
        facts = facts_of("loss: nan")
        self.assertIsNone(tellers.holds('device == "mps"', facts))
        self.assertTrue(tellers.holds('loss == "nan"', facts))
        self.assertFalse(tellers.holds('loss == "zero"', facts))

    def test_one_number_format_is_not_the_other(self) -> None:
        self.assertEqual(facts_of("x = x.to(torch.bfloat16)")["dtype"], ("bf16",))
        self.assertEqual(facts_of("x = x.to(torch.float16)")["dtype"], ("fp16",))
        for text in ("precision: 16", "precision=16", '"precision": "16"'):
            self.assertTrue(facts_of(text).has("dtype", "fp16"), text)
        self.assertFalse(facts_of("precision: 160").has("dtype", "fp16"))

    def test_what_one_measures_is_written_and_what_a_trainer_prints_is_not(
        self,
    ) -> None:
        measured = facts_of("min=-2e5 max= 2e5 var= 5e7 (T5Stack)\n" * 2)
        self.assertTrue(measured.is_written)
        self.assertTrue(measured.has("named", "t5_stack"))
        self.assertFalse(facts_of(STEPS).is_written)

    def test_a_line_counts_once_however_it_ends(self) -> None:
        code = [
            "import torch.nn.functional as F",
            "# padding",
            "class Attn:",
            "    def forward(self, q, m):",
            "        return F.scaled_dot_product_attention(q, q, q, attn_mask=m)",
        ]
        bars = "1%|\r2%|\r3%|\n"  # a progress bar that is one line of a log
        for end in ("\n", "\r\n", "\x85", "\u2028"):
            facts = facts_of(end.join(code))
            self.assertEqual(facts.line_of("mode", "padding"), 2)
            calls = {"scaled_dot_product_attention": 5, "attn_mask": 5}
            self.assertEqual(facts.values["call"], calls)
            self.assertEqual(facts.values["passed"].keys(), {"attn_mask"})
            shown = [row["value"] for row in document(facts)["named"]]
            self.assertEqual(shown, ["padding", "scaled_dot_product_attention"])
        self.assertEqual(facts_of(bars + "bf16").line_of("dtype", "bf16"), 2)

    def test_a_file_is_one_part(self) -> None:
        code = "import torch\nlr = 6e-4\ny = torch.argmax(x, dim=1)\nloss = f(y, dim=0)"
        self.assertEqual([part.kind.value for part in read_paste(code).parts], ["code"])
        self.assertIn("argmax", facts_of(code).values["call"])

    def test_predicates_that_are_none_say_why(self) -> None:
        for source in ("mps", 'devise == "mps"', 'growth == "4"', 'loss > "nan"'):
            with self.subTest(source), self.assertRaises(ValueError):
                tellers.parse(source)

    def test_the_predicates_of_first_checks_are_sound(self) -> None:
        for check in CHECKS:
            for source in check.get("when", ()):
                tellers.parse(source)


class EmptySiteTests(TestCase):
    def test_a_site_without_records_says_so(self) -> None:
        for log in ("loss: nan", "torch==2.5.0"):
            said = look_up(log)["decision"]
            self.assertIn("no records yet", said["en"])
            self.assertIn("还没有记录", said["zh"])
        self.assertTrue(look_up("loss: nan")["first_checks"])


class AnswerTests(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def test_a_nan_at_the_end_of_a_long_log_is_read(self) -> None:
        for count, before in ((700, 700), (3500, None), (6000, None)):
            with self.subTest(count=count):
                log = "\n".join(f"loss: {1 + at / 9e3:.4f}" for at in range(count))
                answer = look_up(f"{log}\nloss: nan")
                shown = answer["facts"]["figures"]
                line = shown["first_bad"]["line"]
                self.assertEqual(line, count + 1)
                self.assertEqual(shown["series"]["loss"][-1], [line, "nan"])
                self.assertEqual(len(shown["series"]["loss"]), steps.MOST)
                self.assertEqual(shown["finite_before"], before)
                said = f"after {count} finite steps" in answer["decision"]["en"]
                self.assertEqual(said, before is not None)

    def test_a_warning_explains_its_line_and_not_the_nan(self) -> None:
        found = look_up(f"{WARNING}\n{STEPS}\n{BAD}")
        self.assertEqual(
            found["decision"]["en"],
            "NAN-0002 explains line 1. No record explains line 8: grad_norm is nan "
            "after 6 finite steps.",
        )
        self.assertIn("第 8 行", found["decision"]["zh"])
        self.assertLessEqual(len(found["candidates"]), 3)
        self.assertEqual(found["outcome"], "possible")

    def test_each_certain_record_says_which_line_it_explains(self) -> None:
        empty = "UserWarning: `parameters` is an empty generator, no gradient clipping"
        said = look_up(f"{WARNING}\n{empty} will occur.")["decision"]["en"]
        self.assertIn("NAN-0002 explains line 1.", said)
        self.assertIn("NAN-0051 explains line 2.", said)

    def test_a_nan_beside_an_explained_warning_has_first_checks(self) -> None:
        self.assertEqual(look_up(WARNING)["first_checks"], [])
        steps = "".join(f"step {n} loss 2.0 grad_norm 1.{n}\n" for n in range(1, 9))
        found = look_up(f"{WARNING}\n{steps}step 9 loss 2.0 grad_norm nan\n")
        self.assertIn("NAN-0002 explains line 1", found["decision"]["en"])
        self.assertIn("No record explains line 10", found["decision"]["en"])
        self.assertIn("batch", [row["name"] for row in found["first_checks"]])

    def test_an_assert_of_a_kernel_is_asked_for_its_labels(self) -> None:
        log = "Indexing.cu:92: [4,0] Assertion `srcIndex < srcSelectDimSize` failed.\n"
        self.assertEqual(look_up(log)["first_checks"][0]["name"], "range")
        known = "Loss.cu:240: [0,0,0] Assertion `t >= 0 && t < n_classes` failed.\n"
        self.assertEqual(look_up(known)["candidates"][0]["record"], "NAN-0180")

    def test_a_report_of_the_probe_leads_to_its_capture(self) -> None:
        report = "nan_probe 2: first non-finite value\n  op: aten.frob.default\n"
        report += "  cause: the op, from finite inputs\n"
        first = look_up(report)["first_checks"][0]
        self.assertEqual(first["name"], "capture")
        refused = look_up(f"{report}  capture: none: no operator\n")["first_checks"]
        self.assertNotIn("capture", [row["name"] for row in refused])

    def test_frames_of_the_interpreter_freeze_no_parameter(self) -> None:
        for frames, modes in (
            ('File "<frozen runpy>", line 291, in run_path', []),
            ("the backbone is frozen", ["frozen"]),
        ):
            rows = look_up(f"{frames}\nstep 3 loss nan\n")["facts"]["named"]
            modes_read = [row["value"] for row in rows if row["fact"] == "mode"]
            self.assertEqual(modes_read, modes)

    def test_what_is_not_sure_has_first_checks_of_the_trainer(self) -> None:
        found = look_up(f"{STEPS}\n{BAD}")
        names = [row["name"] for row in found["first_checks"]]
        self.assertEqual((names[0], names[-1]), ("filter", "probe"))
        self.assertLessEqual(len(names), 4)
        yolo = look_up("yolov8 with amp: loss nan")["first_checks"]
        self.assertIn("yolo train ... amp=False", [row["code"] for row in yolo])

    def test_a_stated_rate_and_a_named_gradient_bucket_are_checked(self) -> None:
        for log, name in (
            ("main.py --lr=0.15 --epochs=200: the loss is nan", "rate"),
            ("AssertionError: Rank 11: found NaN in local grad norm", "data"),
        ):
            names = [row["name"] for row in look_up(log)["first_checks"]]
            self.assertIn(name, names)

    def test_a_growth_past_all_bounds_is_told_in_few_digits(self) -> None:
        losses = ("8.5", "112.3", "1.4e+23", "inf", "nan")
        found = look_up("".join(f"{{'loss': {loss}}}\n" for loss in losses))
        titles = [row["title"]["en"] for row in found["first_checks"]]
        self.assertIn("The loss grew 1.647e+22-fold", titles[0])

    def test_a_list_of_packages_shows_no_trainer(self) -> None:
        packages = "torch==2.5.1+cu124\ntransformers==4.50.0\npeft==0.15.1"
        page = self.client.post("/en/lookup/", {"log": packages})
        self.assertContains(page, "package=transformers")
        self.assertNotContains(page, "trainer=transformers")

    def test_the_picture_and_the_chips(self) -> None:
        page = self.client.post("/en/lookup/", {"log": f"{STEPS}\n{BAD}\n{BAD}"})
        self.assertContains(page, '<svg class="trend"')
        self.assertContains(page, 'value="trainer=transformers"')

    def test_few_words_without_a_sure_answer_can_be_searched_for(self) -> None:
        for log, links in (
            ("accuracy drops\nafter eval", ["?q=accuracy%20drops%20after%20eval"]),
            ("svd 反向 nan", ["?q=svd%20%E5%8F%8D%E5%90%91%20nan"]),
            (f"{STEPS}\n{BAD}", []),
            ("UserWarning: None of the inputs have requires_grad=True.", []),
        ):
            page = self.client.post("/en/lookup/", {"log": log}).content.decode()
            found = re.findall(r'href="/en/search/(\?q=.*?)"', page)
            self.assertEqual(found, links, log)

    def test_of_a_long_list_what_records_are_about_is_shown_first(self) -> None:
        other = [f"a{n}==1.0" for n in range(30)]
        env = "\n".join([*other, "torch==2.5.0", "transformers==4.45.2"])
        page = self.client.post("/en/lookup/", {"log": f"{STEPS}\n{BAD}", "env": env})
        chips = re.findall(r'name="drop"\s+value="(.*?)"', page.content.decode())
        self.assertEqual(chips[0], "package=torch")
        before = chips[: chips.index("package=a0")]
        self.assertLessEqual(
            {"trainer=transformers", "package=transformers"}, {*before}
        )

    def test_a_fact_that_was_taken_away_counts_no_more(self) -> None:
        log = "loss nan on mps"
        slugs = [row["slug"] for row in look_up(log)["candidates"]]
        self.assertIn("mps-wrong-gradients", slugs)
        found = look_up(log, dropped=["device=mps"])
        self.assertNotIn("mps", json.dumps(found["facts"]["named"]))

    def test_a_whole_list_rules_out_what_is_not_installed(self) -> None:
        found = look_up(BAD, FREEZE)
        out = {row["reason"]: row["records"] for row in found["ruled_out"]}
        self.assertIn("NAN-0053", out["package"])

    def test_a_number_alone_lists_no_record_of_another_package(self) -> None:
        listed = [
            row["record"] for row in look_up("reward: 1.0 entropy: nan")["candidates"]
        ]
        self.assertNotIn("NAN-0072", listed)

    def test_what_a_call_passes_orders_what_it_calls(self) -> None:
        call = "out = F.scaled_dot_product_attention(q, k, v, {}=m)"
        for passed, first, then in (
            ("attn_mask", "NAN-0008", "NAN-0011"),
            ("is_causal", "NAN-0011", "NAN-0008"),
        ):
            found = look_up(call.format(passed), "torch 2.4.1")["candidates"]
            order = [row["record"] for row in found]
            self.assertIn(first, order)
            self.assertNotIn(then, order[: order.index(first)])
            reason = found[order.index(first)]["because"][0]["en"]
            self.assertIn(f"passes {passed}", reason)

    def test_a_reason_is_a_named_thing(self) -> None:
        for text in (
            "help",
            "it broke and I do not know after what",
            "goe aten native",
        ):
            self.assertEqual(look_up(text)["candidates"], [], text)
        code = "out = F.kl_div(F.log_softmax(p, -1), q)\nout.backward()"
        (first, *_rest) = look_up(code)["candidates"]
        self.assertIn("kl_div", first["because"][0]["en"])

    def test_an_agent_reads_few_words(self) -> None:
        found = look_up("loss: nan grad_norm: nan", FREEZE)
        shown = tools.in_one("en", tools.LookupAnswerSerializer, found)
        # Some four characters make a token.
        self.assertLess(len(json.dumps(tools.short(shown))) / 4, 2000)
