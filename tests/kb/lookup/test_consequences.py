"""Messages that many causes bring about make no answer certain by themselves."""

from __future__ import annotations

from typing import Any

from django.test import SimpleTestCase

from kb.lookup import reasons
from kb.lookup.answer import look_up
from tests.kb.lookup.test_symptoms import SymptomTest

Json = dict[str, Any]
CLIP = (
    "/env/lib/python3.8/site-packages/torch/nn/utils/clip_grad.py:55: FutureWarning: "
    "Non-finite norm encountered in torch.nn.utils.clip_grad_norm_; continuing anyway. "
    "Note that the default behavior will change in a future release to error out if a "
    "non-finite total norm is encountered. At that point, setting "
    "error_if_nonfinite=false will be required to retain the old behavior."
)
TOTAL = (
    "RuntimeError: The total norm of order 2.0 for gradients from `parameters` is "
    "non-finite, so it cannot be clipped. To disable this error and scale the "
    "gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
)
LOC = (
    "ValueError: Expected parameter loc (Tensor of shape (16, 3)) of distribution "
    "Normal(loc: torch.Size([16, 3]), scale: torch.Size([16, 3])) to satisfy the "
    "constraint Real(), but found invalid values:\ntensor([[nan, nan, nan]])"
)
MINIMUM = (
    "Exception: Current loss scale already at minimum - cannot decrease scale anymore. "
    "Exiting run."
)
UNUSED = (
    "RuntimeError: It looks like your LightningModule has parameters that were not "
    "used in producing the loss returned by training_step."
)
LATENTS = "NaN found in latents, replacing with zeros"
STRIDES = (
    "UserWarning: cuDNN SDPA backward got grad_output.strides() != output.strides(), "
    "attempting to materialize a grad_output with matching strides..."
)
INF_CHECKS = "AssertionError: No inf checks were recorded for this optimizer."
FP16 = "ValueError: Attempting to unscale FP16 gradients."
NONE_OF_THEM = (
    "UserWarning: None of the inputs have requires_grad=True. Gradients will be None"
)
GOOD = "{'loss': 2.1, 'grad_norm': 0.7, 'epoch': 0.1}"
BAD = "{'loss': 0.0, 'grad_norm': nan, 'epoch': 0.2}"


class CertaintyTests(SymptomTest):
    def sure(self, log: str) -> list[str]:
        rows = look_up(log)["candidates"]
        return [row["slug"] for row in rows if row["confidence"] != "possible"]

    def test_the_words_of_a_warning_ask_for_no_symptom(self) -> None:
        found = look_up(
            "UserWarning: None of the inputs have requires_grad=True. "
            "Gradients will be None"
        )
        self.assertEqual(found["symptoms"], [])
        self.assertEqual(
            [row["slug"] for row in found["candidates"]],
            ["checkpoint-reentrant-lost-grad"],
        )

    def test_a_message_that_any_nan_brings_about_is_sure_of_none(self) -> None:
        for log in (
            CLIP,
            TOTAL,
            LOC,
            MINIMUM,
            UNUSED,
            f"PPO iteration 7: value_loss 0.4\n{CLIP}\nvalue_loss nan\n{LOC}",
        ):
            with self.subTest(log[:60]):
                found = look_up(log)
                self.assertEqual(self.sure(log), [])
                self.assertTrue(found["first_checks"])

    def test_its_record_is_listed_all_the_same(self) -> None:
        for log, slug in (
            (CLIP, "clip-grad-norm-nonfinite"),
            (LOC, "distribution-parameter-nan"),
            (MINIMUM, "fp16-loss-scale-exhausted"),
        ):
            self.assertEqual(self.causes(log)[0], slug)

    def test_a_shared_message_is_sure_by_another_line_only(self) -> None:
        self.assertEqual(self.sure(LATENTS), [])
        named = f"accelerate launch sdxl_train_network.py\n{LATENTS}"
        self.assertEqual(self.sure(named), ["sdxl-vae-fp16"])

    def test_nor_does_a_title_before_the_traceback_make_it_sure(self) -> None:
        message = (
            "element 0 of tensors does not require grad and does not have a grad_fn"
        )
        log = f"{message}\n\nEpoch 0: 0%\nRuntimeError: {message}"
        self.assertEqual(self.sure(log), [])
        known = f"{log}\nTrainingArguments(gradient_checkpointing=True)"
        self.assertEqual(self.sure(known), ["checkpoint-reentrant-lost-grad"])

    def test_nor_does_a_word_or_another_wording(self) -> None:
        message = "does not require grad and does not have a grad_fn"
        for log in (
            f'File "/x/finetune.py", line 6, in main\n'
            f"RuntimeError: element 0 of tensors {message}",
            f"RuntimeError: element 0 or 1 of tensors {message}",
        ):
            self.assertEqual(self.sure(log), [])
            self.assertEqual(self.causes(log)[0], "checkpoint-reentrant-lost-grad")

    def test_the_decision_names_every_sure_match_and_three_are_listed(self) -> None:
        logs = (STRIDES, UNUSED, INF_CHECKS, FP16, NONE_OF_THEM)
        found = look_up("\n\n".join(logs))
        self.assertEqual(found["decision"]["en"].count(" explains "), 4)
        self.assertEqual(len(found["candidates"]), 3)

    def test_a_norm_that_measures_nothing_outweighs_a_zero(self) -> None:
        log = "{'loss': 0.0, 'grad_norm': 1.7320508, 'learning_rate': 1e-05}"
        self.assertEqual(self.causes(log)[0], "deepspeed-inf-norm-becomes-nan")

    def test_a_warning_beside_finite_figures_explains_no_nan(self) -> None:
        self.assertEqual(self.sure(f"{STRIDES}\n{GOOD}\n{GOOD}"), [])
        self.assertEqual(
            self.sure(f"{STRIDES}\n{GOOD}\n{BAD}"), ["cudnn-sdpa-stride-warning-nan"]
        )


class BeginningTests(SymptomTest):
    def said(self, log: str) -> str:
        decision: Json = look_up(log)["decision"]
        return str(decision["en"])

    def test_one_value_is_no_beginning(self) -> None:
        log = "Loss is nan, stopping training"
        self.assertNotIn("from the first value", self.said(log))
        self.assertNotIn("data", [row["name"] for row in look_up(log)["first_checks"]])

    def test_nor_is_a_log_that_was_cut(self) -> None:
        late = "\n".join(f"step {n} loss: nan" for n in (2400, 2410))
        self.assertNotIn("from the first value", self.said(late))
        begun = "\n".join(f"step {n} loss: nan" for n in (1, 2))
        self.assertIn("loss is nan from the first value on", self.said(begun))

    def test_nor_is_a_bar_or_a_share_of_an_epoch_that_is_far_on(self) -> None:
        for late in (
            "Steps: 2%|x | 1299/82400 [31:29<30:59:03, 1.38s/it, loss=nan]\n"
            "Steps: 2%|x | 1300/82400 [31:31<30:49:04, 1.37s/it, loss=nan]",
            "{'loss': nan, 'epoch': 0.53}\n{'loss': nan, 'epoch': 0.54}",
        ):
            self.assertNotIn("from the first value", self.said(late))

    def test_one_finite_step_is_one(self) -> None:
        log = "step 1 loss: 0.5\nstep 2 loss: nan"
        self.assertIn("loss is nan after one finite step", self.said(log))


class WordingTests(SymptomTest):
    def test_chinese_stands_close_to_names(self) -> None:
        message = (
            "RuntimeError: probability tensor contains either `inf`, `nan` or "
            "element < 0"
        )
        log = f"用bf16训练，换成fp16推理就报错\n{message}"
        self.assertEqual(self.causes(log)[0], "fp16-overflow")
        self.assertIn("loss-nan", self.shown("跑了两轮之后训练loss nan了"))

    def test_a_root_or_a_power_explains_a_nan_loss(self) -> None:
        for code, slug in (
            ("d = torch.sqrt((a - b).pow(2).sum(-1))", "sqrt-at-zero-nan-grad"),
            ("d = ((a - b).pow(2).sum(-1)) ** 0.5", "pow-zero-base-grad"),
        ):
            log = f"The loss becomes nan after some epochs.\n\n{code}\nloss = d.mean()"
            self.assertIn(slug, self.causes(log)[:2])

    def test_messages_of_a_distribution_in_other_words(self) -> None:
        for log in (
            "RuntimeError: normal expects all elements of std >= 0.0",
            "RuntimeError: invalid multinomial distribution (encountering probability "
            "entry < 0)\nppo.learn(1000)",
        ):
            self.assertIn("distribution-parameter-nan", self.causes(log))

    def test_a_nan_that_is_no_loss_has_causes_too(self) -> None:
        log = "The outputs of my model hold NaN with use_fp16, and none in float32."
        self.assertEqual(self.causes(log)[0], "fp16-overflow")
        log = "The dice of the second class is NaN, all others are fine."
        self.assertIn("empty-class-metric", self.causes(log))

    def test_many_ranks_are_tried_as_one(self) -> None:
        log = "With FSDP on 8 GPUs the loss is nan."
        self.assertIn("ranks", [row["name"] for row in look_up(log)["first_checks"]])


class ReasonTests(SimpleTestCase):
    def test_what_a_longer_reason_says_is_not_said_again(self) -> None:
        both, one = 'call == "log" and call == "softmax"', 'call == "log"'
        self.assertEqual(
            [row["en"] for row in reasons.of_predicates([one, both, 'says ~ "x"'])],
            ["your code calls log and softmax", "your paste says “x”"],
        )

    def test_the_values_of_one_fact_are_said_at_once(self) -> None:
        told = reasons.of_predicates(['trainer == "trl"', 'trainer == "verl"'])
        self.assertEqual(
            [row["en"] for row in told], ["your paste comes from trl and verl"]
        )

    def test_a_state_is_said_in_a_sentence(self) -> None:
        for source, said in (
            ('grad_norm == "recovers"', "grad_norm is finite again later"),
            ("last_loss_scale > 1000", "the loss scale is above 1000"),
            ("last_loss_scale <= 64", "the loss scale is at 64 or below"),
            ('onset == "first"', "it begins at the first step"),
        ):
            self.assertEqual(reasons.of_predicates([source])[0]["en"], said)
